#include "textflag.h"

DATA null<>+0(SB)/8, $"/dev/nul"
DATA null<>+8(SB)/8, $"l\x00\x00\x00\x00\x00\x00\x00"
GLOBL null<>(SB), RODATA, $16

TEXT ·entry(SB), NOSPLIT|NOFRAME, $0-0
	MOVQ $72, AX // fcntl
	MOVQ $1, DI
	MOVQ $1, SI // F_GETFD
	SYSCALL
	CMPQ AX, $-9 // EBADF
	JNE  start
	MOVQ $2, AX // open
	LEAQ null<>(SB), DI
	MOVQ $0, SI // O_RDONLY
	SYSCALL
	MOVQ AX, DI
	MOVQ $33, AX // dup2: it may have become stdin, if that is closed too
	MOVQ $1, SI
	SYSCALL

start:
	JMP _rt0_amd64_linux(SB)
