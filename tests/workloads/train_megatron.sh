#!/usr/bin/env bash
# Train a small GPT with Megatron-DeepSpeed on GPUs; it refuses to run without one.
#   train_megatron.sh prepare FOLDER    once: makes a data set of a few thousand words
#   train_megatron.sh train FOLDER      as each rank, on a multiple of 2 GCDs
# In small, the shape of the runs with 140 billion parameters on LUMI: bf16, tensor parallel, fused softmax.
set -euo pipefail

verb=$1
folder=$2
tree=/opt/megatron-deepspeed

prepare() {
    mkdir -p "$folder"
    python - "$folder" <<'PYTHON'
import json
import random
import sys
from pathlib import Path

folder = Path(sys.argv[1])
# GPT-2's tokenizer with single bytes for tokens: each byte has a printable character of its own.
plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
others = [byte for byte in range(256) if byte not in plain]
names = [*map(chr, plain), *(chr(256 + number) for number, _ in enumerate(others)), "<|endoftext|>"]
(folder / "vocab.json").write_text(json.dumps({name: number for number, name in enumerate(names)}))
(folder / "merges.txt").write_text("#version: 0.2\n")
words = random.Random(0)
with (folder / "text.jsonl").open("w") as file:
    for _ in range(200):
        text = " ".join(words.choice(["one", "two", "three", "four"]) for _ in range(400))
        file.write(json.dumps({"text": text}) + "\n")
PYTHON
    python "$tree/tools/preprocess_data.py" --input "$folder/text.jsonl" --output-prefix "$folder/text" \
        --dataset-impl mmap --tokenizer-type GPT2BPETokenizer \
        --vocab-file "$folder/vocab.json" --merge-file "$folder/merges.txt" --append-eod --workers 1
    cat >"$folder/deepspeed.json" <<'JSON'
{
    "train_micro_batch_size_per_gpu": 4,
    "train_batch_size": 64,
    "gradient_clipping": 1.0,
    "zero_optimization": {"stage": 0},
    "bf16": {"enabled": true}
}
JSON
}

train() {
    exec python "$tree/pretrain_gpt.py" \
        --tensor-model-parallel-size 2 --pipeline-model-parallel-size 1 \
        --num-layers 4 --hidden-size 512 --num-attention-heads 8 \
        --seq-length 256 --max-position-embeddings 256 --position-embedding-type alibi \
        --micro-batch-size 4 --global-batch-size 64 --train-iters 20 \
        --optimizer adam --adam-beta1 0.9 --adam-beta2 0.95 --lr 1e-3 --lr-decay-style constant \
        --clip-grad 1.0 --weight-decay 0.1 --bf16 --embed-layernorm --sync-tp-duplicated-parameters \
        --tokenizer-type GPT2BPETokenizer --vocab-file "$folder/vocab.json" \
        --merge-file "$folder/merges.txt" --data-path "$folder/text_text_document" --data-impl mmap \
        --split 90,10,0 --log-interval 1 --eval-interval 100 --eval-iters 1 \
        --deepspeed --deepspeed_config "$folder/deepspeed.json" --zero-stage 0
}

case "$verb" in
prepare | train) "$verb" ;;
*)
    echo "error: '$verb' is neither prepare nor train" >&2
    exit 2
    ;;
esac
