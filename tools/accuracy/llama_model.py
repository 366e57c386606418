# SPDX-License-Identifier: Apache-2.0
"""Writes a random model of llama's kind: small, fast on a CPU, of no use but for its time. Needs numpy and llama.cpp's gguf-py.

usage: llama_model.py FILE
"""

import itertools
import string
import sys

import gguf
import numpy

WIDTH, LAYERS, INNER, HEADS, VOCABULARY, CONTEXT = 384, 6, 1024, 6, 2048, 8192
SPECIAL = ('<s>', '</s>', '<pad>')


def symbols_of_bytes():
    """A printable character for each byte, in the way of GPT-2's tokenizers."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {**{byte: chr(byte) for byte in printable}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}


def vocabulary():
    """Bytes, then pairs of letters and letters after a space, then longer words, as merges of those before."""
    symbols = symbols_of_bytes()
    tokens, merges = [symbols[byte] for byte in range(256)], []
    first = [symbols[32], *string.ascii_lowercase]
    pairs = [one + other for one in first for other in string.ascii_lowercase]
    merges += [f'{pair[0]} {pair[1]}' for pair in pairs]
    tokens += pairs
    for pair, letter in itertools.product(pairs, string.ascii_lowercase):
        if len(tokens) == VOCABULARY - len(SPECIAL):
            break
        merges.append(f'{pair} {letter}')
        tokens.append(pair + letter)
    return [*tokens, *SPECIAL], merges


def write_head(writer):
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_vocab_size(VOCABULARY)
    tokens, merges = vocabulary()
    writer.add_tokenizer_model('gpt2')
    writer.add_tokenizer_pre('gpt-2')
    writer.add_token_list(tokens)
    writer.add_token_types([1] * (len(tokens) - len(SPECIAL)) + [3] * len(SPECIAL))
    writer.add_token_merges(merges)
    writer.add_bos_token_id(VOCABULARY - 3)
    writer.add_eos_token_id(VOCABULARY - 2)
    writer.add_pad_token_id(VOCABULARY - 1)


def write_weights(writer):
    draws = numpy.random.default_rng(1)

    def add(name, *shape):
        writer.add_tensor(name, (draws.standard_normal(shape, dtype=numpy.float32) / numpy.sqrt(shape[-1])).astype(numpy.float16))

    def add_ones(name):
        writer.add_tensor(name, numpy.ones(WIDTH, dtype=numpy.float32))
    add('token_embd.weight', VOCABULARY, WIDTH)
    add('output.weight', VOCABULARY, WIDTH)
    add_ones('output_norm.weight')
    for i in range(LAYERS):
        block = f'blk.{i}.'
        for name in ('attn_norm', 'ffn_norm'):
            add_ones(f'{block}{name}.weight')
        for name in ('attn_q', 'attn_k', 'attn_v', 'attn_output'):
            add(f'{block}{name}.weight', WIDTH, WIDTH)
        for name in ('ffn_gate', 'ffn_up'):
            add(f'{block}{name}.weight', INNER, WIDTH)
        add(f'{block}ffn_down.weight', WIDTH, INNER)


def main():
    writer = gguf.GGUFWriter(sys.argv[1], 'llama')
    write_head(writer)
    write_weights(writer)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == '__main__':
    main()
