/* Pointers to functions, structures, a list, a sort with a callback.

params: n=50,100,150 m=10,20,30 r=4,8,12
command: {n} {m} {r}
main: n + r
add: n * r
scale: m * r
apply: n * r + m * r
push: n
length: n
compare: n
sort: n
release: n
walk: m
*/
#include <stdlib.h>

#define NO __attribute__((noinline)) static
typedef void (*kernel)(double *, int);
struct stage { kernel run; int size; };
struct node { struct node *next; int value; };
volatile double sink;

NO void add(double *x, int i) { for (int k = 0; k < 3; k++) x[i] += k; }
NO void scale(double *x, int i) { for (int k = 0; k < 5; k++) x[i] *= 1.01; }
NO void apply(const struct stage *stage, double *x) {
  for (int i = 0; i < stage->size; i++) stage->run(x, i);
}
NO struct node *push(struct node *head, int value) {
  struct node *made = malloc(sizeof *made);
  made->next = head;
  made->value = value;
  return made;
}
NO int length(const struct node *head) {
  int count = 0;
  for (; head; head = head->next) count++;
  return count;
}
static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
NO void sort(int n) {
  int *of = malloc(sizeof *of * n);
  for (int i = 0; i < n; i++) of[i] = i * 7919 % n;
  qsort(of, n, sizeof *of, compare);
  sink += of[0];
  free(of);
}
NO void release(struct node *head) {
  while (head) {
    struct node *next = head->next;
    free(head);
    head = next;
  }
}
NO int walk(int left) { return left == 0 ? 0 : 1 + walk(left - 1); }

int main(int argc, char **argv) {
  int n = atoi(argv[1]), m = atoi(argv[2]), r = atoi(argv[3]);
  double *x = calloc(n + m, sizeof *x);
  struct stage stages[] = {{add, n}, {scale, m}};
  for (int i = 0; i < r; i++)
    for (int k = 0; k < 2; k++) apply(&stages[k], x);
  struct node *head = 0;
  for (int i = 0; i < n; i++) head = push(head, i);
  sink += length(head) + walk(m);
  sort(n);
  release(head);
  free(x);
  return 0;
}
