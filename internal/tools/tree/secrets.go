package tree

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// The reasons why a file is not read without an approval of its own.
const (
	LooksSecret = "looks like a file of secrets"
	ofProgram   = "is one of qq's own files"
)

// The files that hold secrets, in lower case. This is the only list of them.
var (
	// secretFolders hold nothing but secrets, and what leads to them.
	secretFolders = []string{
		"/.ssh/", "/.gnupg/", "/.aws/", "/.azure/", "/.kube/", "/.password-store/", "/.secrets/", "/.mozilla/",
		"/.thunderbird/", "/.config/gcloud/", "/.config/chromium/", "/.config/google-chrome/", "/.config/op/",
		"/.config/keybase/", "/.local/share/keyrings/", "/.local/share/kwalletd/",
	}
	// secretPaths are ends of paths.
	secretPaths = []string{
		"/.docker/config.json", "/gh/hosts.yml", "/.config/hub", "/glab-cli/config.yml", "/doctl/config.yaml",
		"/hcloud/cli.toml", "/configstore/firebase-tools.json", "/sops/age/keys.txt", "/.oci/config",
		"/.snowsql/config", "/.fly/config.yml", "/.m2/settings.xml", "/.m2/settings-security.xml",
		"/.gradle/gradle.properties", "/etc/shadow", "/etc/gshadow",
	}
	// keyEnds and keyBeginnings are parts of the names of keys and key stores.
	keyEnds = []string{
		".pem", ".key", ".p12", ".pfx", ".pkcs12", ".p8", ".ppk", ".jks", ".jceks", ".bks", ".keystore", ".kdbx",
		".kdb", ".keytab", ".ovpn", ".keychain", ".keychain-db", "_rsa", "_dsa", "_ecdsa", "_ed25519",
	}
	keyBeginnings = []string{"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "id_xmss"}
	// secretEnds and secretBeginnings are parts of the names of settings and of states of deployments.
	secretEnds       = []string{".env", ".tfstate", ".tfvars", ".tfvars.json"}
	secretBeginnings = []string{".env.", ".env-", ".env_", ".envrc"}
	// secretWords are parts of names, unless the file is a program, a text or a picture.
	secretWords = []string{"credential", "secret", "kubeconfig", "service-account", "service_account", "adminsdk"}
	// backups are ends of names that editors and people append. They do not count.
	backups = []string{"~", ".bak", ".backup", ".old", ".orig", ".save", ".swp"}
)

const (
	secretNames = " .env .netrc _netrc .authinfo .npmrc .pypirc .pgpass pgpass.conf .my.cnf .mylogin.cnf " +
		".htpasswd .dockercfg .dockerconfigjson .s3cfg .boto .databrickscfg .terraformrc .vault-token .token " +
		"token.json token.pickle auth.json adc.json access_tokens.db rclone.conf secring.gpg " +
		"wallet.dat logins.json key3.db key4.db cookies.sqlite password.txt passwords.txt passwords.csv .history " +
		".histfile fish_history consolehost_history.txt .viminfo "
	// exemplary words mark files that show how a file of secrets is written.
	exemplary = " example examples sample template dist defaults schema "
	// harmless are the extensions of programs, texts and pictures.
	harmless = " .go .c .h .cc .cpp .cxx .hpp .hh .m .mm .cs .fs .vb .java .kt .kts .scala .clj .cljs .groovy " +
		".gradle .js .jsx .mjs .cjs .ts .tsx .mts .cts .vue .svelte .astro .py .pyi .ipynb .rb .erb .php .pl .pm " +
		".rs .swift .dart .lua .r .jl .ex .exs .erl .hrl .hs .ml .mli .nim .zig .sh .bash .zsh .fish .ps1 .bat " +
		".sql .tf .proto .graphql .html .htm .css .scss .sass .less .hbs .ejs .j2 .jinja .tmpl .tpl .cmake .mk " +
		".bzl .nix .md .mdx .rst .adoc .tex .org .po .pot .svg .png .jpg .jpeg .gif .webp .ico .snap .feature .d " +
		".s .asm .wasm .map "
)

// Secret reports whether a file looks like one that holds secrets, by its path with slashes.
func Secret(file string) bool {
	file = "/" + strings.TrimLeft(fold(file), "/")
	for _, end := range backups {
		file = strings.TrimSuffix(file, end)
	}
	base := path.Base(file)
	ext := path.Ext(base)
	begins := func(start string) bool { return strings.HasPrefix(base, start) }
	ends := func(end string) bool { return strings.HasSuffix(file, end) }
	holds := func(part string) bool { return strings.Contains(file, part) }
	named := func(word string) bool { return strings.Contains(base, word) }
	switch {
	case holds("/.") && slices.ContainsFunc(secretFolders, holds), slices.ContainsFunc(secretPaths, ends):
		return true
	case holds(".git/") && (base == "config" || base == "config.worktree"):
		return true
	case base == "environ" && strings.HasPrefix(file, "/proc/"): // of a process
		return true
	case ext == ".pub":
		return false
	case begins("id_") && ext == "", begins("ssh_host_") && ends("_key"), slices.ContainsFunc(keyEnds, ends),
		slices.ContainsFunc(keyBeginnings, begins):
		return true
	case has(secretNames, base), begins(".") && ends("_history"), slices.ContainsFunc(secretEnds, ends),
		slices.ContainsFunc(secretBeginnings, begins), slices.ContainsFunc(secretWords, named) && !has(harmless, ext):
		words := strings.FieldsFunc(base, func(r rune) bool { return strings.ContainsRune(".-_", r) })
		return !slices.ContainsFunc(words, func(word string) bool { return has(exemplary, word) })
	}
	return false
}

// has reports whether list, words between spaces, contains word.
func has(list, word string) bool { return word != "" && strings.Contains(list, " "+word+" ") }

// fold returns name in small letters. A letter that a file system may take for one of ASCII, such as the long s,
// becomes that one.
func fold(name string) string {
	low := strings.ToLower(name)
	if strings.ContainsFunc(low, func(r rune) bool { return r > '~' }) {
		low = strings.ToLower(strings.ToUpper(low))
	}
	return low
}

// Private are folders whose files are special because of their place: those in which qq keeps the settings and the
// agents of the user, transcripts and the ledger.
type Private []string

// Places returns the folders dirs, absolute paths, without symbolic links.
func Places(dirs []string) Private {
	var p Private
	for _, dir := range dirs {
		p = append(p, strings.TrimSuffix(fold(filepath.ToSlash(realPath(filepath.Clean(dir)))), "/")+"/")
	}
	return p
}

// realPath resolves the symbolic links in the part of path that exists.
func realPath(dir string) string {
	real, err := filepath.EvalSymlinks(dir)
	switch up := filepath.Dir(dir); {
	case err == nil:
		return real
	case os.IsNotExist(err) && up != dir:
		return filepath.Join(realPath(up), filepath.Base(dir))
	}
	return dir
}

// Unread returns why a file is not read without an approval of its own, or "" for most files. The path is absolute,
// without symbolic links and with slashes.
func (p Private) Unread(file string) string {
	switch {
	case p.Holds(file):
		return ofProgram
	case Secret(file):
		return LooksSecret
	}
	return ""
}

// Concern returns why changing a file needs an approval of its own, or "". It is [Concern] for an absolute path.
func (p Private) Concern(file string) string {
	if p.Holds(file) {
		return ofProgram
	}
	return Concern(file)
}

// Taken are globs of absolute paths: files that a definition takes from an agent.
type Taken []string

// IsTaken is the reason why a file of [Taken] is not read.
const IsTaken = "is taken from this agent by a definition"

// Holds reports whether a file, or a folder above it, is one of them, with or without regard to case. The path is
// absolute and has slashes.
func (t Taken) Holds(file string) bool {
	for file = fold(file); len(t) > 0 && file != "." && file != "/"; file = path.Dir(file) {
		matches := func(glob string) bool { return doublestar.MatchUnvalidated(fold(glob), file) }
		if slices.ContainsFunc(t, matches) {
			return true
		}
	}
	return false
}

// Bars returns why an agent that works in the folder own may not have another one work in dir, or "": because of what
// dir is, or is below. What own is a part of does not count, unless it belongs to git. Both paths are absolute, without
// symbolic links and with slashes.
func (p Private) Bars(own, dir string) string {
	switch {
	case p.Holds(dir):
		return ofProgram
	case Secret(dir + "/x"): // only folders whose files are all secrets
		return "is a folder of secrets"
	}
	why := obeyed(fold(dir))
	if why != "" && why != ofGit && obeyed(fold(own)) != "" {
		below, _ := strings.CutPrefix(dir, strings.TrimSuffix(own, "/")+"/")
		return obeyed(fold(below))
	}
	return why
}

// Holds reports whether a file, an absolute path with slashes, is one of these folders or in one.
func (p Private) Holds(file string) bool {
	file = fold(file) + "/"
	return slices.ContainsFunc(p, func(dir string) bool { return strings.HasPrefix(file, dir) })
}
