// p4est_client: checkpoints of an adaptive mesh with its data, as p4est saves them through MPI-IO, with or without the
// partition. --again restarts from the checkpoint, refines the mesh and saves it over the old one.
// It stands for libraries that write checkpoints: SCR, FTI, VeloC and SIONlib are in neither Debian 12 nor PyPI.
#include <p4est_bits.h>
#include <p4est_extended.h>

#include "client.h"

enum { LEVEL = 5, DATA_WORDS = 16 };
enum { FIELD = 1, FIELD_AGAIN = 2 };

static const char* const kModes[] = {"save", "save_partitioned", NULL};

typedef struct {
  int32_t words[DATA_WORDS];
} Data;

/// Numbers of a quadrant that depend on its place in the mesh alone.
static int64_t place(p4est_topidx_t tree, const p4est_quadrant_t* quadrant) {
  return ((int64_t)tree * (1 << 20) + (int64_t)p4est_quadrant_linear_id(quadrant, quadrant->level)) * DATA_WORDS;
}

static void fill(p4est_t* forest, p4est_topidx_t tree, p4est_quadrant_t* quadrant) {
  Data* data = quadrant->p.user_data;
  const int seed = *(int*)forest->user_pointer;
  for (int i = 0; i < DATA_WORDS; ++i) data->words[i] = value_at(seed, place(tree, quadrant) + i);
}

static int first_child(p4est_t* forest, p4est_topidx_t tree, p4est_quadrant_t* quadrant) {
  (void)forest;
  (void)tree;
  return p4est_quadrant_child_id(quadrant) == 0;
}

static void save(p4est_t* forest) {
  if (mode_is("save_partitioned")) {
    p4est_save_ext(client.file, forest, 1, 1);
  } else {
    p4est_save(client.file, forest, 1);
  }
}

static void compare(p4est_t* forest, int seed) {
  for (p4est_topidx_t t = forest->first_local_tree; t <= forest->last_local_tree; ++t) {
    p4est_tree_t* tree = p4est_tree_array_index(forest->trees, t);
    for (size_t i = 0; i < tree->quadrants.elem_count; ++i) {
      p4est_quadrant_t* quadrant = p4est_quadrant_array_index(&tree->quadrants, i);
      const Data* data = quadrant->p.user_data;
      expect_values("quadrant", data->words, seed, place(t, quadrant), DATA_WORDS);
    }
  }
}

/// As many quadrants as first_run and second_run have left.
static int64_t expected_count(void) {
  const int64_t trees = 6;
  const int64_t uniform = trees << (2 * LEVEL);
  return client.again ? uniform + uniform / 4 * 3 : uniform;
}

int main(int argc, char** argv) {
  start(argc, argv, kModes);
  sc_init(MPI_COMM_WORLD, 0, 0, NULL, SC_LP_ERROR);
  p4est_init(NULL, SC_LP_ERROR);
  int seed = FIELD;
  p4est_connectivity_t* connectivity = NULL;
  p4est_t* forest = NULL;
  if (!client.check && !client.again) {
    connectivity = p4est_connectivity_new_cubed();
    forest = p4est_new_ext(MPI_COMM_WORLD, connectivity, 0, LEVEL, 1, sizeof(Data), fill, &seed);
    save(forest);
  } else {
    forest = p4est_load(client.file, MPI_COMM_WORLD, sizeof(Data), 1, &seed, &connectivity);
    if (client.check) {
      if (forest->global_num_quadrants != expected_count()) {
        fail("%lld quadrants, not %lld", (long long)forest->global_num_quadrants, (long long)expected_count());
      }
      compare(forest, client.again ? FIELD_AGAIN : FIELD);
    } else {
      seed = FIELD_AGAIN;
      p4est_refine(forest, 0, first_child, NULL);
      p4est_partition(forest, 0, NULL);
      for (p4est_topidx_t t = forest->first_local_tree; t <= forest->last_local_tree; ++t) {
        p4est_tree_t* tree = p4est_tree_array_index(forest->trees, t);
        for (size_t i = 0; i < tree->quadrants.elem_count; ++i) {
          fill(forest, t, p4est_quadrant_array_index(&tree->quadrants, i));
        }
      }
      save(forest);
    }
  }
  p4est_destroy(forest);
  p4est_connectivity_destroy(connectivity);
  sc_finalize();
  MPI_Finalize();
  return 0;
}
