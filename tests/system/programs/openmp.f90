! Parallel loops of a Fortran program, one in a module procedure.
module work
  implicit none
contains
  subroutine fill(values)
    real(8), intent(out) :: values(:)
    integer :: i
    !$omp parallel do num_threads(3)
    do i = 1, size(values)
      values(i) = i
    end do
    !$omp end parallel do
  end subroutine
end module

program main
  use work
  implicit none
  real(8) :: values(100), total
  integer :: i
  external :: start
  call start() ! of MPI
  do i = 1, 7
    call fill(values)
  end do
  total = 0
  !$omp parallel do reduction(+:total) num_threads(2)
  do i = 1, 100
    total = total + values(i)
  end do
  !$omp end parallel do
  print '(f8.1)', total
end program
