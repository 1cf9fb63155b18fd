//go:build !linux

package appendfile

import "os"

// syncData writes f to the disk.
func syncData(f *os.File) error { return f.Sync() }
