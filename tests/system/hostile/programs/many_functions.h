/* 500 functions `f100` to `f599`, a function that calls all of them, and callers of that one: the table grows
 * while they are called for the first time. */
#define ONE(n) __attribute__((noinline)) static int f##n(int x) { return x + n; }
#define TEN(n) ONE(n##0) ONE(n##1) ONE(n##2) ONE(n##3) ONE(n##4) ONE(n##5) ONE(n##6) ONE(n##7) ONE(n##8) ONE(n##9)
#define HUNDRED(n) TEN(n##0) TEN(n##1) TEN(n##2) TEN(n##3) TEN(n##4) TEN(n##5) TEN(n##6) TEN(n##7) TEN(n##8) TEN(n##9)
HUNDRED(1) HUNDRED(2) HUNDRED(3) HUNDRED(4) HUNDRED(5)
#define CALL(n) +f##n(1)
#define CALL10(n) CALL(n##0) CALL(n##1) CALL(n##2) CALL(n##3) CALL(n##4) CALL(n##5) CALL(n##6) CALL(n##7) CALL(n##8) CALL(n##9)
#define CALL100(n) CALL10(n##0) CALL10(n##1) CALL10(n##2) CALL10(n##3) CALL10(n##4) CALL10(n##5) CALL10(n##6) CALL10(n##7) CALL10(n##8) CALL10(n##9)
static int call_many(void) { return 0 CALL100(1) CALL100(2) CALL100(3) CALL100(4) CALL100(5); }
#define CALLER(n) __attribute__((noinline)) static int caller##n(void) { return call_many(); }
