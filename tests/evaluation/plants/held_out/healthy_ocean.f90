! Without a limit: a shallow-water stencil on a two-dimensional grid of ranks, the same size for each.
module ocean
  use mpi
  implicit none
  integer, parameter :: n = 160, real8 = MPI_DOUBLE_PRECISION
contains
  subroutine halo(f, comm, column)
    real(8), intent(inout) :: f(0:n + 1, 0:n + 1)
    integer, intent(in) :: comm, column
    integer :: low, high, ierr, status(MPI_STATUS_SIZE)
    call MPI_Cart_shift(comm, 0, 1, low, high, ierr)
    call MPI_Sendrecv(f(n, 0), 1, column, high, 1, f(0, 0), 1, column, low, 1, comm, status, ierr)
    call MPI_Sendrecv(f(1, 0), 1, column, low, 2, f(n + 1, 0), 1, column, high, 2, comm, status, ierr)
    call MPI_Cart_shift(comm, 1, 1, low, high, ierr)
    call MPI_Sendrecv(f(0, n), n + 2, real8, high, 3, f(0, 0), n + 2, real8, low, 3, comm, status, ierr)
    call MPI_Sendrecv(f(0, 1), n + 2, real8, low, 4, f(0, n + 1), n + 2, real8, high, 4, comm, status, ierr)
  end subroutine
  subroutine momentum(u, v, h)
    real(8), intent(inout) :: u(0:n + 1, 0:n + 1), v(0:n + 1, 0:n + 1)
    real(8), intent(in) :: h(0:n + 1, 0:n + 1)
    integer :: i, j
    do j = 1, n
      do i = 1, n
        u(i, j) = 0.99d0 * u(i, j) - 0.1d0 * (h(i + 1, j) - h(i - 1, j)) + 0.01d0 * v(i, j)
        v(i, j) = 0.99d0 * v(i, j) - 0.1d0 * (h(i, j + 1) - h(i, j - 1)) - 0.01d0 * u(i, j)
      end do
    end do
  end subroutine
  subroutine continuity(u, v, h)
    real(8), intent(in) :: u(0:n + 1, 0:n + 1), v(0:n + 1, 0:n + 1)
    real(8), intent(inout) :: h(0:n + 1, 0:n + 1)
    integer :: i, j
    do j = 1, n
      do i = 1, n
        h(i, j) = h(i, j) - 0.1d0 * (u(i + 1, j) - u(i - 1, j) + v(i, j + 1) - v(i, j - 1))
      end do
    end do
  end subroutine
end module
program healthy_ocean
  use ocean
  implicit none
  integer :: ierr, nranks, comm, column, step, dims(2)
  real(8), dimension(0:n + 1, 0:n + 1) :: u, v, h
  real(8) :: mass, total
  call MPI_Init(ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierr)
  dims = 0
  call MPI_Dims_create(nranks, 2, dims, ierr)
  call MPI_Cart_create(MPI_COMM_WORLD, 2, dims, [.true., .true.], .false., comm, ierr)
  call MPI_Type_vector(n + 2, 1, n + 2, real8, column, ierr)
  call MPI_Type_commit(column, ierr)
  u = 0
  v = 0
  h = 1
  h(n / 2, n / 2) = 2
  do step = 1, 200
    call halo(h, comm, column)
    call momentum(u, v, h)
    call halo(u, comm, column)
    call halo(v, comm, column)
    call continuity(u, v, h)
    if (mod(step, 50) == 0) then
      mass = sum(h(1:n, 1:n))
      call MPI_Allreduce(mass, total, 1, real8, MPI_SUM, comm, ierr)
    end if
  end do
  call MPI_Finalize(ierr)
end program
