/* A library whose function has the name WORK, at the same address whatever the name is. */
__attribute__((noinline)) int WORK(int x) { return x + VALUE; }
int enter(int x) {
  int sum = 0;
  for (int i = 0; i < VALUE; i++) sum += WORK(x);
  return sum;
}
