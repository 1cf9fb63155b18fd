//go:build !cgo

package sandbox

// threadsFound reports whether all threads of this process can be made to enter
// a domain: without cgo the runtime knows them.
func threadsFound() error { return nil }
