! A spectral transform: the degrees to sum over at each point grow as sqrt(p), as the resolution.
program legendre
  use mpi
  implicit none
  integer, parameter :: points = 4000
  integer :: ierr, rank, ranks, step, degrees, i
  real(8) :: x(points), field(points), total
  real(8), allocatable :: spectrum(:)
  character(16) :: word
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  degrees = nint(60 * sqrt(real(ranks, 8)))
  if (command_argument_count() > 0) then
    call get_command_argument(command_argument_count(), word)
    if (word == 'repaired') degrees = 60
  end if
  allocate (spectrum(0:degrees))
  spectrum = [(1d0 / (1 + i)**2, i = 0, degrees)]
  x = [(-1d0 + 2d0 * (i - 0.5d0) / points, i = 1, points)]
  do step = 1, 40
    call to_grid(spectrum, x, field)
    call tendencies(field)
    call MPI_Allreduce(field(1), total, 1, MPI_DOUBLE_PRECISION, MPI_MAX, MPI_COMM_WORLD, ierr)
    spectrum(0) = 1d0 + 1d-6 * total
  end do
  call MPI_Finalize(ierr)
contains
  subroutine to_grid(s, at, f)
    real(8), intent(in) :: s(0:), at(:)
    real(8), intent(out) :: f(:)
    real(8) :: before, now, next
    integer :: k, n
    do k = 1, size(at)
      before = 1d0
      now = at(k)
      f(k) = s(0) + s(1) * now
      do n = 2, ubound(s, 1)
        next = ((2 * n - 1) * at(k) * now - (n - 1) * before) / n
        before = now
        now = next
        f(k) = f(k) + s(n) * now
      end do
    end do
  end subroutine
  subroutine tendencies(f)
    real(8), intent(inout) :: f(:)
    integer :: sweep
    do sweep = 1, 10
      f = f - 1d-3 * f**3 + 1d-4 * cos(f)
    end do
  end subroutine
end program
