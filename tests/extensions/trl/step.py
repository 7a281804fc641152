"""Fine-tune a small GPT-2 one step with the trainer of TRL."""

import tempfile

from changed import changing
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import GPT2Config, GPT2LMHeadModel, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

words = ["<pad>", "<end>", "to", "be", "or", "not"]
tokenizer = Tokenizer(models.WordLevel({word: n for n, word in enumerate(words)}, "<pad>"))
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>")
model = GPT2LMHeadModel(GPT2Config(vocab_size=8, n_positions=32, n_layer=1, n_head=2, n_embd=16))
with tempfile.TemporaryDirectory() as folder, changing(model.parameters()) as losses:
    settings = SFTConfig(
        output_dir=folder,
        max_steps=1,
        per_device_train_batch_size=2,
        use_cpu=True,
        bf16=False,
        report_to="none",
        save_strategy="no",
        max_length=16,
    )
    rows = Dataset.from_dict({"text": ["to be or not to be"] * 4})
    trainer = SFTTrainer(model, settings, train_dataset=rows, processing_class=fast)
    losses.append(trainer.train().training_loss)
