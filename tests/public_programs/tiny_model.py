"""Write a Llama of random weights, a tokenizer of bytes, and conversations of random words."""

import json
import random
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TEMPLATE = "{% for m in messages %}{{ m.role + ': ' + m.content + eos_token }}{% endfor %}"


def write_model(folder: Path) -> None:
    """Write the tokenizer and the model."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    numbers = {each: number for number, each in enumerate(["<pad>", "</s>", *letters])}
    tokenizer = Tokenizer(models.BPE(vocab=numbers, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="</s>", pad_token="<pad>", chat_template=TEMPLATE
    )
    fast.save_pretrained(folder)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "max_position_embeddings": 128}
    counts = {"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2}
    words = {"vocab_size": len(numbers), "bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 0}
    LlamaForCausalLM(LlamaConfig(**sizes, **counts, **words)).save_pretrained(folder)


def write_conversations(folder: Path) -> None:
    """Write a question with an answer of random words in each row."""
    draw = random.Random(0)
    folder.mkdir()
    for name, rows in (("train", 32), ("test", 8)):
        with (folder / f"{name}.jsonl").open("w") as file:
            for _ in range(rows):
                answer = " ".join(draw.choices(["red", "green", "blue"], k=8))
                texts = {"user": "Colours, please.", "assistant": answer}
                talk = [{"role": role, "content": text} for role, text in texts.items()]
                file.write(json.dumps({"messages": talk}) + "\n")


place = Path(sys.argv[1])
write_model(place / "model")
write_conversations(place / "conversations")
