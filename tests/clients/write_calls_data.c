// The bytes that each rank writes, and the file that they make.
#include <stdlib.h>
#include <string.h>

#include "write_calls.h"

static uint64_t mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15u;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

void fill_block(char* block, int rank, int round, int seed) {
  const uint64_t state = mix(((uint64_t)seed << 48) ^ ((uint64_t)rank << 16) ^ (uint64_t)round);
  for (int i = 0; i < BLOCK; i += 4) {
    const uint32_t word = (uint32_t)mix(state + (uint64_t)i);
    memcpy(block + i, &word, sizeof word);
  }
}

static int64_t data_bytes(const Run* run) {
  return (int64_t)run->ranks * STREAM;
}

int64_t with_holes(const Run* run, int64_t at) {
  if (!run->view) return at;
  return at + at / ((int64_t)run->ranks * PIECE) * PIECE;
}

int64_t file_bytes(const Run* run) {
  return with_holes(run, data_bytes(run) - 1) + 1;
}

bool in_hole(const Run* run, int64_t at) {
  const int64_t pieces = at / PIECE;
  return run->view && pieces % (run->ranks + 1) == run->ranks;
}

void place_block(const Run* run, char* image, const char* block, int slot) {
  for (int i = 0; i < PIECES_IN_BLOCK; ++i) {
    memcpy(image + with_holes(run, (int64_t)slot * BLOCK + (int64_t)i * PIECE), block + (size_t)i * PIECE, PIECE);
  }
}

void place_in_rank_view(const Run* run, char* image, const char* block, int rank, int round) {
  for (int i = 0; i < PIECES_IN_BLOCK; ++i) {
    const int64_t stripe = (int64_t)round * PIECES_IN_BLOCK + i;
    memcpy(image + with_holes(run, (stripe * run->ranks + rank) * PIECE), block + (size_t)i * PIECE, PIECE);
  }
}

char* expected_file(const Run* run, const Call* call, const char* actual) {
  char* image = allocate(file_bytes(run));
  char* block = allocate(BLOCK);
  bool* taken = allocate((int64_t)run->ranks * ROUNDS);
  for (int round = 0; round < ROUNDS; ++round) {
    for (int rank = 0; rank < run->ranks; ++rank) {
      fill_block(block, rank, round, 0);
      if (run->view && !shared_pointer(call)) {
        place_in_rank_view(run, image, block, rank, round);
        continue;
      }
      int slot = round * run->ranks + rank;
      if (call->place == SHARED_POINTER) {
        for (slot = 0; slot < run->ranks * ROUNDS; ++slot) {
          const char* there = actual + with_holes(run, (int64_t)slot * BLOCK);
          if (!taken[slot] && memcmp(there, block, PIECE) == 0) break;
        }
        if (slot == run->ranks * ROUNDS) fail("block %d of rank %d is not in the file", round, rank);
        taken[slot] = true;
      }
      place_block(run, image, block, slot);
    }
  }
  free(taken);
  free(block);
  return image;
}
