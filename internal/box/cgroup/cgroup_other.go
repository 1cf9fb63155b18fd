//go:build !linux

package cgroup

import "os"

// Group is a group of processes. Only Linux has them.
type Group struct {
	Tasks  []*os.File
	Folder *os.File
}

// Find returns none: only Linux has groups.
func Find() Parents { return Parents{} }

// Make returns nil: there is nothing to limit with.
func (Parents) Make(Limits) (*Group, error) { return nil, nil }

// Exceeded returns 0.
func (*Group) Exceeded() (memory, processes int) { return 0, 0 }

// Remove does nothing.
func (*Group) Remove() {}
