/* Loops of all kinds, a triangle, early exits, memory that is set and copied.

params: n=40,80,120 m=10,20,30 s=3,6,9
command: {n} {m} {s}
main: s
fill: n * m * s
triangle: n * n
scan: n
stride: n
clear: n * m
duplicate: m
digits:
*/
#include <stdlib.h>
#include <string.h>

#define NO __attribute__((noinline)) static
volatile double sink;

NO void fill(double *a, int n, int m) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++) a[i * m + j] = i + j;
}
NO void triangle(int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < i; j++) sink += j;
}
NO int scan(int n) {
  int i = 0;
  while (1)
    if (++i >= n) break;
  return i;
}
NO void stride(int n) {
  for (int i = 1; i < 16 * n; i += 4) sink += i;
}
NO void clear(double *a, int n, int m) { memset(a, 0, sizeof *a * n * m); }
NO void duplicate(int m) {
  char *text = malloc(64 * m);
  memset(text, 'x', 64 * m - 1);
  text[64 * m - 1] = 0;
  char *other = strdup(text);
  sink += other[0];
  free(other);
  free(text);
}
NO int digits(int x) {
  int count = 0;
  do count++;
  while (x /= 100000);
  return count;
}
int main(int argc, char **argv) {
  int n = atoi(argv[1]), m = atoi(argv[2]), s = atoi(argv[3]);
  double *a = malloc(sizeof *a * n * m);
  for (int i = 0; i < s; i++) fill(a, n, m);
  triangle(n);
  sink += scan(n);
  stride(n);
  clear(a, n, m);
  duplicate(m);
  sink += digits(n);
  free(a);
  return 0;
}
