package tree

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSecret(t *testing.T) {
	for file := range strings.FieldsSeq(`.env .ENV .env.local .env-prod .env_test prod.env a/b/staging.env .envrc .envrc.local
		.env.bak .env~ .env.go .git/config sub/.git/config .GIT/CONFIG .git/modules/x/config .git/config.worktree
		repo.git/config credentials credentials.json my-credentials.yml db_credentials.txt .git-credentials
		credentials.yml.enc .aws/config .aws/sso/cache/x.json aws.credentials Credentials.JSON.old
		id_rsa id_ed25519 id_work ID_RSA id_rsa.bak id_rsa.txt id_ecdsa_sk github_rsa deploy_ed25519 ssh_host_rsa_key
		.ssh/config .ssh/known_hosts x/.ssh/keys/deploy terraform.tfstate terraform.tfstate.backup prod.tfvars
		x.auto.tfvars.json kubeconfig kubeconfig.yaml prod-kubeconfig cluster.kubeconfig .kube/config
		.config/gh/hosts.yml config/gh/hosts.yml .config/gcloud/access_tokens.db .config/gcloud/anything
		.config/gcloud/application_default_credentials.json adc.json .config/rclone/rclone.conf .docker/config.json
		auth.json .npmrc .npmrc.bak .pypirc .netrc _netrc .pgpass .my.cnf .bash_history .zsh_history .python_history
		.psql_history .local/share/fish/fish_history .history .viminfo server.pem server.key example.com.key x.p12 x.pfx
		x.jks debug.keystore Passwords.kdbx x.ppk x.keytab home.ovpn AuthKey_1.p8 .gnupg/pubring.kbx
		.local/share/keyrings/login.keyring Library/Keychains/login.keychain-db .password-store/a.gpg
		secrets.yml secrets.json .streamlit/secrets.toml client_secret_1.json app.secret my-service-account.json
		firebase-adminsdk-1.json token.json .m2/settings.xml .gradle/gradle.properties /etc/shadow
		/proc/self/environ proc/1/environ .mozilla/firefox/x/prefs.js logins.json key4.db
		.cargo/credentials.toml .terraform.d/credentials.tfrc.json`) {
		assert.True(t, Secret(file), file)
	}
	for file := range strings.FieldsSeq(`.env.example .env.sample .env.template .env.dist .env.defaults example.env
		sample.env .envrc.example credentials.example.json secrets.sample.yml terraform.tfvars.example .env.example.bak
		credentials.go credentials_test.go useCredentials.ts CredentialsProvider.java test_credentials.py
		credentials.md secret.go secrets.py secret_manager.rs SecretStore.kt docs/secrets.md get-credentials.sh
		credentials.tf secrets.tf client_secret.html credentials.png service_account.go kubeconfig.go kubeconfig.md
		id_rsa.pub id_map.go id_generator.py id_token.ts ids.txt idea.md environment env env.go environ environment.yml
		keys.go keys.json monkey keyboard.c key.txt hockey pem.go pem_test.go tokens.json token.go auth.go auth.ts
		authors.json config config.json git/config gitconfig .gitignore .gitattributes .gitmodules .gitlab-ci.yml
		history.go HISTORY.md CHANGELOG.md bash_history.go main.tf variables.tf .terraform.lock.hcl go.mod go.sum
		package.json package-lock.json yarn.lock .yarnrc.yml .nvmrc .editorconfig .dockerignore Dockerfile
		docker-compose.yml Makefile README.md LICENSE settings.xml gradle.properties hosts.yml hosts kube/config
		docker/config.json aws/main.go ssh/config ssh.go gnupg.go npmrc netrc.go envoy.yaml .environment .envoy
		passwords.go password.html passwd shadow.css src/etc/shadow.go proc/self/status environ.c login.json
		wallet.go data.dat rsa.go crypto_rsa.go p12.go x509.go keystore.go testdata/keystore.md`) {
		assert.False(t, Secret(file), file)
	}
}

// Letters that a file system without regard to case takes for those of ASCII.
func TestSecretFolds(t *testing.T) {
	for _, file := range []string{".ENV", "ID_RſA", "\u212aubeconfig", ".\u017fsh/x", "CREDENTIALſ", ".AWS/x"} {
		assert.True(t, Secret(file), file)
	}
}

func TestPrivate(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	home := filepath.Join(dir, "home")
	require.NoError(t, os.Mkdir(home, 0o700))
	require.NoError(t, os.Symlink(home, filepath.Join(dir, "link")))
	p := Places([]string{filepath.Join(dir, "link", "qq"), filepath.Join(dir, "home", "not", "there") + "/"})
	for file, want := range map[string]string{
		home + "/qq/sessions/a.jsonl": "is one of qq's own files",
		home + "/QQ/x":                "is one of qq's own files",
		home + "/not/there/.env":      "is one of qq's own files",
		home + "/qqx/a":               "",
		home + "/a":                   "",
		home + "/.env":                LooksSecret,
	} {
		assert.Equal(t, want, p.Unread(file), file)
		assert.Equal(t, want, p.Concern(file), file)
	}
	assert.Equal(t, "belongs to git", Private(nil).Concern(home+"/.git/config"))
}

func TestTaken(t *testing.T) {
	files := Taken{"/w/secret/**", `/w/\[x\]/*.pem`, "/w/docs"}
	for file, want := range map[string]bool{
		"/w/secret/a": true, "/w/SECRET/a/b": true, "/w/secret": true, "/w/[x]/a.pem": true, "/w/docs/a": true,
		"/w/docs": true, "/w/x": false, "/w/secrets": false, "/w/[x]/a": false, "/w": false, "/": false, "": false,
	} {
		assert.Equal(t, want, files.Holds(file), file)
	}
	assert.False(t, Taken(nil).Holds("/w/secret/a"))
}

func FuzzSecret(f *testing.F) {
	for _, file := range []string{".env", "a/b.key", "/", "", ".git/config", "\xff", "~", "ſ"} {
		f.Add(file)
	}
	f.Fuzz(func(t *testing.T, file string) {
		assert.Equal(t, Secret(file), Secret(strings.ToUpper(strings.ToLower(file))), "case does not matter")
		if Secret(file) && !strings.HasSuffix(file, "/") {
			assert.True(t, Secret("folder/"+file) || strings.HasPrefix(strings.ToLower(file), "/proc") ||
				strings.HasPrefix(strings.ToLower(file), "proc"), "nor does a folder")
		}
	})
}

func BenchmarkSecret(b *testing.B) {
	const file = "/home/somebody/projects/something/internal/tools/tree/gitignore_test.go"
	b.ReportAllocs()
	for b.Loop() {
		Secret(file)
	}
}

// TestBars: what the folder of the asking agent is a part of does not count twice, but for that of git.
func TestBars(t *testing.T) {
	p := Places([]string{"/home/me/.local/state/qq"})
	for _, c := range []struct{ own, dir, want string }{
		{"/w", "/w/src", ""}, {"/w", "/w/secrets", ""}, {"/w", "/w/environment", ""},
		{"/w", "/w/sub/.git/hooks", ofGit}, {"/w", "/w/.GitHub/workflows", "is obeyed by other programs"},
		{"/w", "/w/.VſCODE", "is obeyed by other programs"},
		{"/w/.claude/worktrees/a", "/w/.claude/worktrees/a/src", ""},
		{"/w/.claude/worktrees/a", "/w/.claude/worktrees/a/.github", "is obeyed by other programs"},
		{"/w/.git", "/w/.git/hooks", ofGit}, {"/home/me", "/home/me/.ssh", "is a folder of secrets"},
		{"/home/me", "/home/me/.local", ""}, {"/home/me", "/home/me/.local/state/qq/trust", ofProgram},
	} {
		assert.Equal(t, c.want, p.Bars(c.own, c.dir), "%s %s", c.own, c.dir)
	}
}
