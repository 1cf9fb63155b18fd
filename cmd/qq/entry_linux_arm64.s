#include "textflag.h"

DATA null<>+0(SB)/8, $"/dev/nul"
DATA null<>+8(SB)/8, $"l\x00\x00\x00\x00\x00\x00\x00"
GLOBL null<>(SB), RODATA, $16

TEXT ·entry(SB), NOSPLIT|NOFRAME, $0-0
	MOVD $25, R8 // fcntl
	MOVD $1, R0
	MOVD $1, R1 // F_GETFD
	SVC
	CMN  $9, R0 // EBADF
	BNE  start
	MOVD $56, R8 // openat
	MOVD $-100, R0 // AT_FDCWD
	MOVD $null<>(SB), R1
	MOVD $0, R2 // O_RDONLY
	MOVD $0, R3
	SVC
	MOVD $24, R8 // dup3: it may have become stdin, if that is closed too
	MOVD $1, R1
	MOVD $0, R2
	SVC

start:
	JMP _rt0_arm64_linux(SB)
