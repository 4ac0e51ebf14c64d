! A product of sparse matrices resets a marker for each column of all ranks, in each block of rows.
! Repaired: it resets the columns that it marked.
module sparse
  use mpi
  implicit none
  integer, parameter :: rows = 2000, per_row = 12
  integer, allocatable :: marker(:)
  integer :: columns(per_row, rows)
  integer :: rank, nranks, ierr, total
  real(8) :: values(per_row, rows), sums(rows)
contains

  subroutine make_matrix()
    integer :: i, k
    total = rows*nranks
    allocate (marker(total))
    marker = 0
    do i = 1, rows
      do k = 1, per_row
        columns(k, i) = 1 + modulo(i*7 + k*k*31 + rank*rows, total)
        values(k, i) = 1d0/(i + k)
      end do
    end do
  end subroutine make_matrix

  subroutine multiply(clear_all)
    logical, intent(in) :: clear_all
    integer :: i, k, pass
    do i = 1, rows
      if (clear_all .and. modulo(i, 8) == 0) marker = 0
      sums(i) = 0
      do pass = 1, 3
        do k = 1, per_row
          if (marker(columns(k, i)) /= i) sums(i) = sums(i) + values(k, i)
          marker(columns(k, i)) = i
        end do
      end do
      if (.not. clear_all) marker(columns(:, i)) = 0
    end do
  end subroutine multiply

  subroutine smooth()
    integer :: pass, i
    do pass = 1, 400
      do i = 2, rows - 1
        sums(i) = 0.5d0*sums(i) + 0.25d0*(sums(i - 1) + sums(i + 1))
      end do
    end do
  end subroutine smooth
end module sparse

program markers
  use sparse
  implicit none
  integer :: step
  real(8) :: mine, all
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierr)
  call make_matrix()
  do step = 1, 60
    call multiply(command_argument_count() == 0)
    call smooth()
    mine = sums(5)
    call MPI_Allreduce(mine, all, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  end do
  if (rank == 0) print *, all
  call MPI_Finalize(ierr)
end program markers
