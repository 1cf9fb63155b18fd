//go:build !linux

package sandbox

import (
	"errors"
	"os"
)

// Probe returns what this system can enforce: nothing.
func Probe() Support { return Support{} }

func (s Support) reason() string { return "only Linux has Landlock" }

func (s Support) cure() string { return "run qq on Linux, in a virtual machine or a container" }

// Apply returns an error: only Linux can restrict a process.
func Apply(Rules) error { return Probe().unsupported() }

func (Order) join() error { return nil }

func (o Order) enter() error {
	if o.Overlay != nil {
		return errors.ErrUnsupported
	}
	return nil
}

// Mount returns an error: only Linux has overlays.
func (Layers) Mount() (*os.File, error) { return nil, errors.ErrUnsupported }

func sendOverlays(string) error { return errors.ErrUnsupported }

func forgoPrivileges() error { return nil }

func (Order) show() (viewed bool, err error) { return false, nil }

func (Order) limit() error { return nil }

func restrictThread(r Rules) error { return Apply(r) }

func refuseSockets() error { return nil }

func dropPowers() error { return nil }

func memoryFile(string) (*os.File, error) { return nil, errors.ErrUnsupported }
