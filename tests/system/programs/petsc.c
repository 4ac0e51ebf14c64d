/* A tridiagonal system: stages and events of PETSc, among them one that is inside of itself. */
#include <petscksp.h>
#include <time.h>

/* The fastest of some blocks counts. */
static void measure(PetscLogEvent event) {
  double best = 1e9;
  for (int block = 0; block < 2000; block++) {
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    for (int i = 0; i < 500; i++) {
      PetscLogEventBegin(event, 0, 0, 0, 0);
      PetscLogEventEnd(event, 0, 0, 0, 0);
    }
    clock_gettime(CLOCK_MONOTONIC, &to);
    double ns = ((double)(to.tv_sec - from.tv_sec) * 1e9 + (double)(to.tv_nsec - from.tv_nsec)) / 500;
    if (ns < best) best = ns;
  }
  printf("COST %.1f\n", best);
}
static char help[] = "A tridiagonal system, solved in stages.\n";
int main(int argc, char **argv) {
  Mat A;
  Vec x, b;
  KSP ksp;
  PetscInt n = 100, i, s, e;
  PetscLogStage stage, second;
  PetscLogEvent mine;
  PetscClassId id;
  PetscCall(PetscInitialize(&argc, &argv, NULL, help));
  PetscCall(PetscClassIdRegister("mine", &id));
  PetscCall(PetscLogEventRegister("my event", id, &mine));
  PetscBool is_cost = PETSC_FALSE;
  PetscCall(PetscOptionsHasName(NULL, NULL, "-cost", &is_cost));
  if (is_cost) {
    measure(mine);
    return PetscFinalize();
  }
  PetscCall(PetscLogStageRegister("assembly", &stage));
  PetscCall(PetscLogStageRegister("solution", &second));
  PetscCall(PetscLogStagePush(stage));
  PetscCall(MatCreate(PETSC_COMM_WORLD, &A));
  PetscCall(MatSetSizes(A, PETSC_DECIDE, PETSC_DECIDE, n, n));
  PetscCall(MatSetFromOptions(A));
  PetscCall(MatSetUp(A));
  PetscCall(MatGetOwnershipRange(A, &s, &e));
  for (i = s; i < e; i++) {
    if (i) PetscCall(MatSetValue(A, i, i - 1, -1, INSERT_VALUES));
    if (i < n - 1) PetscCall(MatSetValue(A, i, i + 1, -1, INSERT_VALUES));
    PetscCall(MatSetValue(A, i, i, 2.1, INSERT_VALUES));
  }
  PetscCall(MatAssemblyBegin(A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatAssemblyEnd(A, MAT_FINAL_ASSEMBLY));
  PetscCall(MatCreateVecs(A, &x, &b));
  PetscCall(VecSet(b, 1));
  PetscCall(PetscLogStagePop());
  PetscCall(PetscLogStagePush(second));
  PetscCall(KSPCreate(PETSC_COMM_WORLD, &ksp));
  PetscCall(KSPSetOperators(ksp, A, A));
  PetscCall(KSPSetFromOptions(ksp));
  for (i = 0; i < 3; i++) {
    PetscCall(PetscLogEventBegin(mine, 0, 0, 0, 0));
    PetscCall(PetscLogEventBegin(mine, 0, 0, 0, 0));
    PetscCall(KSPSolve(ksp, b, x));
    PetscCall(PetscLogEventEnd(mine, 0, 0, 0, 0));
    PetscCall(PetscLogEventEnd(mine, 0, 0, 0, 0));
  }
  PetscCall(PetscLogStagePop());
  PetscReal norm;
  PetscCall(VecNorm(x, NORM_2, &norm));
  PetscCall(PetscPrintf(PETSC_COMM_WORLD, "norm %.6f\n", (double)norm));
  PetscCall(KSPDestroy(&ksp));
  PetscCall(VecDestroy(&x));
  PetscCall(VecDestroy(&b));
  PetscCall(MatDestroy(&A));
  PetscCall(PetscFinalize());
  return 0;
}
