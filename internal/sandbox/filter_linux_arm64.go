package sandbox

import "golang.org/x/sys/unix"

const arch = unix.AUDIT_ARCH_AARCH64

func changesHere() []uint32 { return nil }

func ioctlsHere() []uint32 { return []uint32{unix.SYS_IOCTL} }

// compat returns the numbers of 32-bit programs (arm).
func compat() numbers {
	return numbers{ioctls: []uint32{54}, steering: []uint32{369}, scheduling: []uint32{154, 156, 241, 380},
		keys: []uint32{309, 310, 311}, setPriority: 97, setIOPriority: 314,
		socket: 281, socketPair: 288, socketCall: 102}
}
