package prose

import "strings"

// IsDiff reports whether a text is the difference of files.
func IsDiff(text string) bool {
	at := strings.Index("\n"+text, "\n+++ ")
	return at >= 0 && strings.Contains(text[at:min(len(text), at+1000)], "\n@@ -")
}

// diff returns the prose that a difference of files adds, each under the name
// of its file; or, when it adds none, the prose that it takes away. What stands
// before the first file is a message about it.
func diff(text string) []Block {
	var message, added, removed strings.Builder
	var blocks, gone []Block
	name, inHunk := "", false
	flush := func() {
		for _, side := range []struct {
			text   *strings.Builder
			blocks *[]Block
		}{{&added, &blocks}, {&removed, &gone}} {
			found := parse(side.text.String(), name)
			if len(found) > 0 {
				*side.blocks = append(append(*side.blocks, Block{Kind: Heading, Level: 2, Text: name}), found...)
			}
			side.text.Reset()
		}
	}
	for line := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(line, "diff "), strings.HasPrefix(line, "--- ") && !inHunk:
			flush()
			inHunk, name = false, "-"
		case strings.HasPrefix(line, "+++ ") && !inHunk:
			name, _, _ = strings.Cut(strings.TrimSpace(line[4:]), "\t")
			if _, rest, ok := strings.Cut(name, "/"); ok && rest != "" {
				name = rest // of "b/"
			}
		case strings.HasPrefix(line, "@@ -"):
			inHunk = true
			added.WriteByte('\n')
			removed.WriteByte('\n')
		case !inHunk && name == "":
			message.WriteString(line)
		case inHunk && line[0] == '+':
			added.WriteString(line[1:])
		case inHunk && line[0] == '-':
			removed.WriteString(line[1:])
		}
	}
	flush()
	if len(blocks) == 0 {
		blocks = gone
	}
	if message.Len() > 0 {
		blocks = append(sentencesOnly(plainText(message.String())), blocks...)
	}
	return sentencesOnly(blocks)
}

// sentencesOnly drops the records.
func sentencesOnly(blocks []Block) []Block {
	var out []Block
	for _, b := range blocks {
		if b.Kind != Record {
			out = append(out, b)
		}
	}
	return out
}
