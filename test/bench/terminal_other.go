//go:build !linux

package main

import (
	"context"
	"errors"
	"os"
)

func openTerminal() (person, program *os.File, err error) { return nil, nil, errors.ErrUnsupported }

func answerOnce(context.Context, *os.File, string, string) error { return errors.ErrUnsupported }
