! Strong scaling: each rank has n / p planes, rounded down, and the last rank the rest as well.
! Repaired: the rest is spread over the ranks.
module planes
  use mpi
  implicit none
  integer, parameter :: n = 95, edge = 90
  integer :: rank, nranks, ierr, first, last
  real(8), allocatable :: u(:, :, :)
contains

  subroutine divide(evenly)
    logical, intent(in) :: evenly
    integer :: each
    each = n/nranks
    first = rank*each + 1
    last = first + each - 1
    if (rank == nranks - 1) last = n
    if (evenly) then
      first = rank*n/nranks + 1
      last = (rank + 1)*n/nranks
    end if
    allocate (u(edge, edge, first - 1:last + 1))
    u = 1d0/(rank + 1)
  end subroutine divide

  subroutine exchange()
    integer :: down, up
    down = rank - 1
    up = rank + 1
    if (down < 0) down = MPI_PROC_NULL
    if (up == nranks) up = MPI_PROC_NULL
    call MPI_Sendrecv(u(:, :, last), edge*edge, MPI_DOUBLE_PRECISION, up, 1, u(:, :, first - 1), edge*edge, &
                      MPI_DOUBLE_PRECISION, down, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    call MPI_Sendrecv(u(:, :, first), edge*edge, MPI_DOUBLE_PRECISION, down, 2, u(:, :, last + 1), edge*edge, &
                      MPI_DOUBLE_PRECISION, up, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  end subroutine exchange

  subroutine relax_plane(k)
    integer, intent(in) :: k
    integer :: i, j
    do j = 2, edge - 1
      do i = 2, edge - 1
        u(i, j, k) = (u(i - 1, j, k) + u(i + 1, j, k) + u(i, j - 1, k) + u(i, j + 1, k) + u(i, j, k - 1) &
                      + u(i, j, k + 1))/6.001d0
      end do
    end do
  end subroutine relax_plane

  subroutine relax()
    integer :: k
    do k = first, last
      call relax_plane(k)
    end do
  end subroutine relax
end module planes

program remainder
  use planes
  implicit none
  integer :: step
  real(8) :: mine, all
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierr)
  call divide(command_argument_count() > 0)
  do step = 1, 250
    call exchange()
    call relax()
    mine = u(3, 3, first)
    call MPI_Allreduce(mine, all, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  end do
  if (rank == 0) print *, all
  call MPI_Finalize(ierr)
end program remainder
