package prose

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// show writes blocks as lines: a letter for the kind, and the text.
func show(blocks []Block) string {
	var b strings.Builder
	for _, block := range blocks {
		b.WriteString("piqhr"[block.Kind:block.Kind+1] + " " + block.Text + "\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func TestPlainText(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"lines of a log stay as they are": {
			"Nov 20 14:01:00 web[123]: started in *5* ms\nNov 20 14:01:02 web[123]: the disk is full\n",
			"r Nov 20 14:01:00 web[123]: started in *5* ms\nr Nov 20 14:01:02 web[123]: the disk is full",
		},
		"a table": {
			"ii  adduser   3.134  add and remove users\nii  apt       2.6.1  commandline package manager\nii  bash      5.2    shell of the project\n",
			"r ii  adduser   3.134  add and remove users\nr ii  apt       2.6.1  commandline package manager\nr ii  bash      5.2    shell of the project",
		},
		"a listing": {
			"-rw-r--r-- 1 root root 25 Feb  5 2025 a.conf\n-rw-r--r-- 1 root root 26 Feb  5 2025 b.conf\n",
			"r -rw-r--r-- 1 root root 25 Feb  5 2025 a.conf\nr -rw-r--r-- 1 root root 26 Feb  5 2025 b.conf",
		},
		"markup is no markup": {"The list a[i] is *not* bold, and `x` is\nno [link](http://x.org) either.", "p The list a[i] is *not* bold, and `x` is no [link](http://x.org) either."},
		"a manual page": {
			"GZIP(1)\t\t General Commands Manual\t GZIP(1)\n\nNAME\n       gzip - compress or expand files\n\nDESCRIPTION\n       The  command reduces a file. In par\u2010\n       ticular, it ignores links.\n\ngzip 1.12        2022       GZIP(1)\n",
			"h NAME\np gzip - compress or expand files\nh DESCRIPTION\np The command reduces a file. In particular, it ignores links.",
		},
		"a setting that is commented out": {"# Uncomment the next line to forward packets\n#net.ip_forward=1\n# net.ip_forward=2\n", "p Uncomment the next line to forward packets"},
		"overstriking":                    {"N\bNA\bAM\bME\bE\n   a _\bwo\bord of \x1b[1mprose\x1b[0m", "h NAME\np a word of prose"},
		"comments of a configuration": {
			"# Network services, Internet style\n#\n#>  New ports will be added on request.\n# /etc/x is no comment mark.\n\necho\t7/tcp\ndiscard\t9/udp\tsink null\n",
			"p Network services, Internet style\np New ports will be added on request. /etc/x is no comment mark.\nr echo\t7/tcp\nr discard\t9/udp\tsink null",
		},
		"a title and items": {"The title\n=========\n\n- one item of\n  two lines\n- another item\n", "h The title\ni one item of two lines\ni another item"},
	} {
		assert.Equal(t, c.want, show(Parse(c.text, "")), name)
	}
}

// Code is no prose, whatever the file is called; its comments are.
func TestCodeIsNoProse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ name, text, want string }{
		"shell without a name": {"bash.bashrc", "# System-wide settings for interactive shells.\n\n# If not running interactively, do nothing\n[ -z \"$PS1\" ] && return\nif [ -z \"$x\" ]; then\n  x=1\nfi\n# PS1='$x'\nshopt -s checkwinsize\nPS1=\"$x\"\n",
			"p System-wide settings for interactive shells.\np If not running interactively, do nothing"},
		"cmake": {"CMakeLists.txt", "cmake_minimum_required(VERSION 3.21)\nproject(Bees C)\n\n# The library is built from all files of the folder.\nadd_library(bees a.c)\ntarget_link_libraries(bees m)\ninstall(TARGETS bees)\n",
			"p The library is built from all files of the folder."},
		"statements":       {"", strings.Repeat("var x = foo('a text of some words');\nbar(x);\n", 4), ""},
		"a grammar":        {"x.grammar", "expr ::= term\n| expr '+' term\nterm ::= factor\n| term '*' factor\nfactor ::= number\n", ""},
		"commented out":    {"x.yaml", "# The port of the server for all clients.\nport: 80\n# debug: {on: true}\n# {a: b}\n# The clients are many.\n#x=1\n", "p The port of the server for all clients.\np The clients are many."},
		"markdown, piped":  {"", "# Bees\n\nThey **fly** to [us](x).\n\n```\ncode\n```\n", "h Bees\np They fly to us."},
		"markdown by name": {"a.md", "They *fly*.", "p They fly."},
	} {
		var lines []string
		for line := range strings.Lines(show(Parse(c.text, c.name))) {
			if !strings.HasPrefix(line, "h package") {
				lines = append(lines, line)
			}
		}
		assert.Equal(t, c.want, strings.Join(lines, ""), name)
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	const head = "Author: A\n\n    The guide is easier to read.\n\ndiff --git a/x.md b/x.md\n--- a/x.md\n+++ b/x.md\n@@ -1,2 +1,2 @@ context of the hunk\n an old line\n"
	assert.Equal(t, "p Author: A\np The guide is easier to read.\nh x.md\np The product is new.", show(Parse(head+"-The product is old.\n+The product is new.\n", "")))
	assert.Equal(t, "p Author: A\np The guide is easier to read.\nh x.md\np The product is old.", show(Parse(head+"-The product is old.\n", "")))
	assert.True(t, IsDiff(head))
	assert.False(t, IsDiff("+++ a\nThe text is no diff."))
}

func TestHostilePlainTextsEnd(t *testing.T) {
	t.Parallel()
	for _, unit := range []string{"#", "# a\n", "a\b", "\b", "\x1b[", "- ", "   a\n a\n", "=\n", "(", "`", "+++ a\n@@ -1 +1 @@\n+", "\u2010\n", "a: 1:11\n", "世界。\n", "LS(1)\n"} {
		Parse(strings.Repeat(unit, 500<<10/len(unit)), "")
	}
}
