//go:build !linux

package main

import (
	"context"
	"errors"
	"os"
)

func answerOnce(context.Context, *os.File, string, string) error { return errors.ErrUnsupported }
