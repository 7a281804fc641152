"""Train a small BERT one step so that sentences of one meaning are close."""

import tempfile
from pathlib import Path

import torch
from changed import train_step
from sentence_transformers import SentenceTransformer, models
from sentence_transformers import losses as kinds
from transformers import BertConfig, BertModel, BertTokenizerFast

with tempfile.TemporaryDirectory() as folder:
    vocabulary = Path(folder, "vocab.txt")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "to", "be", "or", "not"]
    vocabulary.write_text("\n".join(words))
    BertTokenizerFast(vocab={word: n for n, word in enumerate(words)}).save_pretrained(folder)
    config = BertConfig(
        vocab_size=16,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
    )
    BertModel(config).save_pretrained(folder)
    word = models.Transformer(folder)
    model = SentenceTransformer(modules=[word, models.Pooling(16)], device="cpu")
objective = kinds.MultipleNegativesRankingLoss(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
pairs = [model.tokenize(["to be", "or not"]), model.tokenize(["be to", "not or"])]
train_step(model, optimizer, lambda: objective(pairs, torch.zeros(2)))
