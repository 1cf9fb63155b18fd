package command

import (
	"bytes"
	"io"
	"os"
	"slices"
	"unicode/utf8"

	"fmt"

	"github.com/urfave/cli/v2"

	"qq/pkg/agents"
	"qq/pkg/spelling"
)

// Flags of the commands that run agents.
var (
	FlagAgent = &cli.StringFlag{Name: "agent", Aliases: []string{"a"},
		Usage: "the agent that does it (see qq agents)"}
	FlagTimeout = &cli.StringFlag{Name: "timeout",
		Usage: "seconds of run time, of the run and of each child (90, 90s, 5m; 0 is no limit)"}
	FlagIdle = &cli.StringFlag{Name: "idle-timeout",
		Usage: "seconds without any activity (90, 90s, 5m; 0 is no limit)"}
	FlagRetries = &cli.StringFlag{Name: "retries", Usage: "more attempts after the first, for faults that may pass"}
	FlagQuota   = &cli.StringFlag{
		Name: "on-quota", Usage: "when a quota at a model server is used up: auto, wait, stop or fallback",
	}
	FlagTokens     = &cli.StringFlag{Name: "max-tokens", Usage: "tokens for the whole tree of agents; 0 is no limit"}
	FlagCost       = &cli.StringFlag{Name: "max-cost", Usage: "what the whole tree of agents may cost; 0 is no limit"}
	FlagNoLedger   = &cli.BoolFlag{Name: "no-ledger", Usage: "keep no record of what is run (see qq runs)"}
	FlagSchema     = &cli.StringFlag{Name: "schema", Usage: "file with a JSON Schema that the answer must fit"}
	FlagResultJSON = &cli.BoolFlag{Name: "json", Usage: "the same as --output-format json"}
	FlagVerbose    = &cli.BoolFlag{Name: "verbose", Aliases: []string{"v"},
		Usage: "say on stderr which tools and children are at work"}
)

// PermissionFlags returns the flags that limit what agents may do.
func PermissionFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{
			Name: "read-only", Usage: "nothing may be changed: no tool that writes, a shell only where the kernel " +
				"keeps it from writing",
		},
		Choice(&cli.StringFlag{
			Name: "isolate", Usage: "what kind of copy of the folder each task that can write gets: auto, overlay or " +
				"worktree; off is none",
		}, []string{"auto", "overlay", "worktree", "off"}),
		&cli.BoolFlag{
			Name: "strict-targets", Usage: "a task with targets, and what it starts, may change nothing else",
		},
		&cli.StringFlag{Name: "approve", Usage: "what happens to a call that can do harm: ask, auto or deny"},
		&cli.BoolFlag{Name: "auto-approve", Usage: "the same as --approve auto"},
		Choice(&cli.StringSliceFlag{
			Name: "allow", KeepSpace: true,
			Usage: "TOOL or TOOL(PATTERN), as run_pty_cmd(git log*) or edit_file(src/*): allowed without a " +
				"question, but for secrets and .git (more than once)",
		}, agents.KnownTools()),
		Choice(&cli.StringSliceFlag{
			Name: "deny", KeepSpace: true, Usage: "TOOL or TOOL(PATTERN) that nobody may use (more than once)",
		}, agents.KnownTools()),
	}
}

// FlagFormat returns the flag --output-format of a command that has these formats.
func FlagFormat(formats []string) cli.Flag {
	return Choice(&cli.StringFlag{Name: "output-format", Usage: OneOf(formats)}, formats)
}

// Format returns which of formats --output-format and --json ask for; the first one if neither is given. It is a usage
// error if they disagree, or ask for another one.
func Format(c *cli.Context, formats []string) (string, error) {
	format := c.String("output-format")
	switch {
	case c.Bool("json") && format != "" && format != "json":
		return "", Usagef("leave one of them out", "--json and --output-format %s disagree", format)
	case c.Bool("json"):
		return "json", nil
	case format == "":
		return formats[0], nil
	case !slices.Contains(formats, format):
		return "", Usagef(spelling.DidYouMean(spelling.Nearest(format, formats))+"accepted is "+OneOf(formats),
			"--output-format is %q", format)
	}
	return format, nil
}

// maxInput is the largest size, in bytes, of a text from a pipe or a file.
const maxInput = 64 << 20

// ReadFile reads a text file that a flag names.
func ReadFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", Usagef("name a file that exists and that you may read", "%v", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return "", Usagef("name a file", "%s is a directory", path)
	}
	return ReadText(f, path)
}

// ReadText reads UTF-8 text of at most 64 MiB. It removes a byte order mark. name is for
// errors.
func ReadText(from io.Reader, name string) (string, error) {
	b, err := io.ReadAll(io.LimitReader(from, maxInput+1))
	if err != nil {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	if len(b) > maxInput {
		return "", Usagef("hand over a file name instead, and let the agent read the file", "%s has more than %d MiB",
			name, maxInput>>20)
	}
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	for i := 0; i < len(b); {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 || r == 0 {
			if slices.Contains(b[:min(len(b), 8<<10)], 0) {
				return "", Usagef("give a text; of a file that agents may read, its name in a prompt is enough",
					"%s is not UTF-8 text but binary, such as a program, a picture or an archive", name)
			}
			return "", Usagef("convert it, for example: iconv -f LATIN1 -t UTF-8",
				"%s is not UTF-8 text (byte 0x%02x at offset %d)", name, b[i], i)
		}
		i += n
	}
	return string(b), nil
}
