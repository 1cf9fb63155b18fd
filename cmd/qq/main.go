// Command qq runs an agent in a process, and supervises every process that the
// agent hands work to. See internal/app for what it does.
package main

import (
	"os"

	"qq/internal/app"
)

func main() {
	os.Exit(app.Main(os.Args, app.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, os.Environ()))
}
