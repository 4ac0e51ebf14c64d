! The rows of the field of all ranks are written one after the other by collective calls. Repaired: one call.
program rows
  use mpi
  implicit none
  integer, parameter :: nx = 256, ny = 24, steps = 8
  integer :: ierr, rank, nranks, step, file
  real(8), allocatable :: field(:, :)
  character(len=200) :: name, folder

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  call MPI_Comm_size(MPI_COMM_WORLD, nranks, ierr)
  allocate (field(nx, ny))
  field = rank
  call get_environment_variable('TMPDIR', folder)
  if (len_trim(folder) == 0) folder = '/tmp'
  write (name, '(a, a, i0)') trim(folder), '/rows.', nranks
  call MPI_File_open(MPI_COMM_WORLD, name, MPI_MODE_CREATE + MPI_MODE_WRONLY + MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, file, ierr)
  do step = 1, steps
    call diffuse()
    if (command_argument_count() > 0) then
      call write_block()
    else
      call write_rows()
    end if
  end do
  call MPI_File_close(file, ierr)
  call MPI_Finalize(ierr)

contains

  subroutine diffuse()
    integer :: i, j, k
    do k = 1, 400
      do j = 2, ny - 1
        do i = 2, nx - 1
          field(i, j) = 0.25d0*(field(i - 1, j) + field(i + 1, j) + field(i, j - 1) + field(i, j + 1)) + 1d-4
        end do
      end do
    end do
  end subroutine diffuse

  subroutine write_rows()
    integer :: row, owner, values
    integer(MPI_OFFSET_KIND) :: offset
    do row = 0, ny*nranks - 1
      owner = row/ny
      values = merge(nx, 0, owner == rank)
      offset = int(row, MPI_OFFSET_KIND)*nx*8
      call MPI_File_write_at_all(file, offset, field(1, mod(row, ny) + 1), values, MPI_DOUBLE_PRECISION, MPI_STATUS_IGNORE, ierr)
    end do
  end subroutine write_rows

  subroutine write_block()
    integer(MPI_OFFSET_KIND) :: offset
    offset = int(rank, MPI_OFFSET_KIND)*nx*ny*8
    call MPI_File_write_at_all(file, offset, field, nx*ny, MPI_DOUBLE_PRECISION, MPI_STATUS_IGNORE, ierr)
  end subroutine write_block
end program rows
