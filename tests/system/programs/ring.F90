! Calls from Fortran: HEADER for mpif.h, MODULE for mpi, F08 for mpi_f08.
program ring
  use insitu, only: insitu_phase
#if defined(F08)
  use mpi_f08
#elif defined(MODULE)
  use mpi
#endif
  implicit none
#ifdef HEADER
  include 'mpif.h'
#endif
#ifdef F08
  type(MPI_Status) :: status
  type(MPI_Request) :: requests(2), fixed(2)
  type(MPI_Comm) :: half, grid
#else
  integer :: status(MPI_STATUS_SIZE), requests(2), fixed(2), half, grid
#endif
  integer :: rank, size, left, right, code, i
  integer :: sides(2) = (/ 1, 3 /)
  logical :: loops(2) = (/ .false., .true. /)
  double precision :: mine(10), theirs(10), all(1000)
  call MPI_Init(code)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, code)
  call MPI_Comm_size(MPI_COMM_WORLD, size, code)
  right = mod(rank + 1, size)
  left = mod(rank + size - 1, size)
  mine = rank
  call insitu_phase('send')
  do i = 1, 5
    call MPI_Sendrecv(mine, 10, MPI_DOUBLE_PRECISION, right, 0, theirs, 10, MPI_DOUBLE_PRECISION, left, 0, &
                      MPI_COMM_WORLD, status, code)
  end do
  call MPI_Irecv(theirs, 10, MPI_DOUBLE_PRECISION, left, 1, MPI_COMM_WORLD, requests(1), code)
  call MPI_Isend(mine, 7, MPI_DOUBLE_PRECISION, right, 1, MPI_COMM_WORLD, requests(2), code)
  call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE, code)
  call MPI_Recv_init(theirs, 10, MPI_DOUBLE_PRECISION, left, 2, MPI_COMM_WORLD, fixed(1), code)
  call MPI_Send_init(mine, 10, MPI_DOUBLE_PRECISION, right, 2, MPI_COMM_WORLD, fixed(2), code)
  do i = 1, 3
    call MPI_Startall(2, fixed, code)
    call MPI_Wait(fixed(2), MPI_STATUS_IGNORE, code)
    call MPI_Wait(fixed(1), status, code)
  end do
  call MPI_Request_free(fixed(1), code)
  call MPI_Request_free(fixed(2), code)
  call insitu_phase('gather  ')
  call MPI_Allreduce(MPI_IN_PLACE, mine, 10, MPI_DOUBLE_PRECISION, MPI_SUM, MPI_COMM_WORLD, code)
  call MPI_Bcast(mine, 10, MPI_DOUBLE_PRECISION, 0, MPI_COMM_WORLD, code)
  call MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, all, 10, MPI_DOUBLE_PRECISION, MPI_COMM_WORLD, code)
  call MPI_Comm_split(MPI_COMM_WORLD, mod(rank, 2), rank, half, code)
  call MPI_Barrier(half, code)
  call MPI_Comm_free(half, code)
  call MPI_Cart_create(MPI_COMM_WORLD, 2, sides, loops, .false., grid, code)
  if (rank == 0) print *, 'done', nint(mine(1))
  call MPI_Finalize(code)
end program
