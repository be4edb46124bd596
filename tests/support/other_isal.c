// An ISA-L that is not the one of this machine, to be preloaded. OTHER_ISAL says which:
//
//   gfni   lays tables out as version 2.31 does on processors with GFNI: eight bytes for each coefficient, row by row. Right
//          for whoever gives ec_encode_data_update the tables that ec_init_tables made, with the same numbers.
//   rows   the same, but two rows at a time are left out.
//   short  the same, but what is 4096 bytes long is computed wrongly: a fault that no trial of the lengths below and above
//          would find.
//
// Tools and tests that preload it run with any ISA-L, since it calls none.
#include <stdlib.h>
#include <string.h>

static unsigned char products[256][256];

__attribute__((constructor)) static void make_products(void) {
  for (unsigned a = 0; a < 256; ++a) {
    for (unsigned b = 0; b < 256; ++b) {
      unsigned product = 0;
      for (unsigned bit = 0; bit < 8; ++bit) {
        if ((b >> bit) & 1) product ^= a << bit;
      }
      for (unsigned bit = 15; bit >= 8; --bit) {
        if ((product >> bit) & 1) product ^= 0x11dU << (bit - 8);
      }
      products[a][b] = (unsigned char)product;
    }
  }
}

static int is(const char *fault) {
  const char *chosen = getenv("OTHER_ISAL");
  return chosen != NULL && strcmp(chosen, fault) == 0;
}

void ec_init_tables(int k, int rows, unsigned char *matrix, unsigned char *tables) {
  for (int i = 0; i < k * rows; ++i) memset(tables + 8 * i, matrix[i], 8);
}

void ec_encode_data_update(int length, int k, int rows, int source, unsigned char *tables, unsigned char *data,
                           unsigned char **coding) {
  if (rows == 2 && is("rows")) return;
  for (int row = 0; row < rows; ++row) {
    const unsigned char *by = products[tables[8 * (row * k + source)]];
    for (int i = 0; i < length; ++i) coding[row][i] ^= by[data[i]];
    if (length == 4096 && is("short")) coding[row][100 + source] ^= 1;
  }
}
