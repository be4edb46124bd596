! A checkpoint of one file for each rank by Fortran I/O: the form (formatted, unformatted, stream, direct) is argument 1, the name without
! the rank argument 2, the seed argument 3.
program plain_fortran_client
  implicit none
  include 'mpif.h'
  integer, parameter :: count = 20000
  character(len=1000) :: form, base, text, name
  integer :: rank, error, seed, i
  real(kind=8) :: values(count)

  call MPI_Init(error)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, error)
  call get_command_argument(1, form)
  call get_command_argument(2, base)
  call get_command_argument(3, text)
  read (text, *) seed
  write (name, '(A,".",I0)') trim(base), rank
  do i = 1, count
    values(i) = seed + rank + i / 3d0
  end do
  select case (form)
  case ('formatted')
    open (unit=10, file=name, status='replace', action='write')
    write (10, '(E23.16)') values
  case ('unformatted')
    open (unit=10, file=name, form='unformatted', status='replace', action='readwrite')
    write (10) values
    rewind (10)
    write (10) values(1:count / 2)
    write (10) values(count / 2 + 1:count)
  case ('stream')
    open (unit=10, file=name, access='stream', form='unformatted', status='replace')
    write (10) values
    write (10, pos=1) values(count)
  case ('direct')
    open (unit=10, file=name, access='direct', form='unformatted', recl=8000, status='replace')
    do i = count / 1000, 1, -1
      write (10, rec=i) values(1 + (i - 1) * 1000:i * 1000)
    end do
  end select
  close (10)
  call MPI_Finalize(error)
end program plain_fortran_client
