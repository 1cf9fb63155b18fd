// Command hello is a yardstick: what it costs to start any Go program.
package main

import "os"

func main() { os.Stdout.WriteString("hello\n") }
