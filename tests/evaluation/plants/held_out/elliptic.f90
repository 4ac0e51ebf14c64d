! Conjugate gradients without a preconditioner: p times as many cells take p times the iterations.
program elliptic
  use mpi
  implicit none
  integer, parameter :: n = 10
  integer :: ierr, rank, ranks, step, i
  real(8) :: x(n), b(n), shift
  character(16) :: word
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  shift = 0d0
  if (command_argument_count() > 0) then
    call get_command_argument(command_argument_count(), word)
    if (word == 'repaired') shift = 1d0
  end if
  do step = 1, 4
    do i = 1, n
      b(i) = 1d0 + modulo((rank * n + i) * 37, 11) * 0.1d0
    end do
    call solve(x, b)
  end do
  call MPI_Finalize(ierr)
contains
  subroutine swap_edges(v, left, right)
    real(8), intent(in) :: v(n)
    real(8), intent(out) :: left, right
    integer :: up, down
    up = merge(rank + 1, MPI_PROC_NULL, rank + 1 < ranks)
    down = merge(rank - 1, MPI_PROC_NULL, rank > 0)
    left = 0d0
    right = 0d0
    call MPI_Sendrecv(v(n), 1, MPI_DOUBLE_PRECISION, up, 1, left, 1, MPI_DOUBLE_PRECISION, &
                      down, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
    call MPI_Sendrecv(v(1), 1, MPI_DOUBLE_PRECISION, down, 2, right, 1, MPI_DOUBLE_PRECISION, &
                      up, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierr)
  end subroutine
  subroutine multiply(v, product)
    real(8), intent(in) :: v(n)
    real(8), intent(out) :: product(n)
    real(8) :: left, right
    integer :: k
    call swap_edges(v, left, right)
    do k = 1, n
      product(k) = (2d0 + shift) * v(k)
      if (k > 1) product(k) = product(k) - v(k - 1)
      if (k < n) product(k) = product(k) - v(k + 1)
    end do
    product(1) = product(1) - left
    product(n) = product(n) - right
  end subroutine
  real(8) function dot(u, v)
    real(8), intent(in) :: u(n), v(n)
    real(8) :: own
    own = sum(u * v)
    call MPI_Allreduce(own, dot, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  end function
  subroutine solve(u, f)
    real(8), intent(out) :: u(n)
    real(8), intent(in) :: f(n)
    real(8) :: r(n), d(n), q(n), rho, before, alpha, first
    u = 0d0
    r = f
    d = r
    rho = dot(r, r)
    first = rho
    do while (rho > 1d-16 * first)
      call multiply(d, q)
      alpha = rho / dot(d, q)
      u = u + alpha * d
      r = r - alpha * q
      before = rho
      rho = dot(r, r)
      d = r + rho / before * d
    end do
  end subroutine
end program
