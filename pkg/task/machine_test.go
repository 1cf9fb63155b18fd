package task

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestMachineFault(t *testing.T) {
	for _, e := range []syscall.Errno{
		syscall.EMFILE, syscall.ENFILE, syscall.EAGAIN, syscall.ENOMEM, syscall.ENOSPC, syscall.EDQUOT, syscall.ETXTBSY,
		syscall.EIO,
	} {
		assert.True(t, MachineFault(fmt.Errorf("start: %w", &os.PathError{Op: "open", Path: "f", Err: e})), e)
	}
	for _, err := range []error{nil, errors.New("too many open files"), fs.ErrNotExist, syscall.EACCES} {
		assert.False(t, MachineFault(err), err)
	}
	err := fmt.Errorf("begin: %w", Machine("mount it", "the folder: %w", fs.ErrNotExist))
	assert.True(t, MachineFault(err))
	assert.ErrorIs(t, err, fs.ErrNotExist)
	assert.Equal(t, Unavailable, StatusOf(err))
	assert.EqualError(t, err, "begin: the folder: file does not exist\nhint: mount it")
}
