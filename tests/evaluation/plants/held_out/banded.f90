! The unknowns of all ranks are numbered in turn, so the band of each rank's matrix is p wide.
program banded
  use mpi
  implicit none
  integer :: ierr, rank, ranks, step, n, width
  real(8), allocatable :: band(:, :), x(:)
  real(8) :: total
  character(16) :: word
  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
  call get_command_argument(1, word)
  read (word, *) n
  width = 4 * ranks
  call get_command_argument(command_argument_count(), word)
  if (word == 'repaired') width = 8
  allocate (band(0:width, n), x(n))
  do step = 1, 8
    call fill_band()
    call factor_band()
    call substitute()
    call MPI_Allreduce(x(n), total, 1, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, ierr)
  end do
  call MPI_Finalize(ierr)
contains
  subroutine fill_band()
    integer :: i, k
    do i = 1, n
      band(0, i) = 4d0 * width
      do k = 1, width
        band(k, i) = 1d0 / (k + step)
      end do
      x(i) = 1d0 + rank
    end do
  end subroutine
  subroutine factor_band()
    integer :: i, j, k
    real(8) :: factor
    do i = 1, n
      do j = 1, min(width, n - i)
        factor = band(j, i) / band(0, i)
        do k = j, min(width, n - i)
          band(k - j, i + j) = band(k - j, i + j) - factor * band(k, i)
        end do
      end do
    end do
  end subroutine
  subroutine substitute()
    integer :: i, j
    do i = 1, n
      x(i) = x(i) / band(0, i)
      do j = 1, min(width, n - i)
        x(i + j) = x(i + j) - band(j, i) * x(i)
      end do
    end do
  end subroutine
end program
