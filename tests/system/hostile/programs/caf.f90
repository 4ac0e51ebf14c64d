! Images of a coarray, which the library starts as ranks of MPI.
program caf
  implicit none
  integer :: mine[*], total, i
  mine = this_image()
  sync all
  total = 0
  do i = 1, num_images()
    total = total + mine[i]
  end do
  call co_sum(mine)
  sync all
  if (this_image() == 1) print '(a,i0,1x,i0)', 'total ', total, mine
  if (total > 1000) error stop 3
end program
