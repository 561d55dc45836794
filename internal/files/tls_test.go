package files_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/internal/fatal"
	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/internal/testpages"
	"github.com/setpoint-dev/setpoint/store/redis/redistest"
)

func TestTLSFilesThatAreWrong(t *testing.T) {
	own := redistest.NewTLS(t)
	empty := filepath.Join(t.TempDir(), "empty")
	put(t, empty, "")
	text := func(path string) string {
		return testpages.Read(t, path)
	}
	joined := func(name, first, then string) string {
		path := filepath.Join(t.TempDir(), name)
		put(t, path, first+then)
		return path
	}
	ca := text(own.CAFile)
	cutCA := joined("cut-ca", ca, ca[:len(ca)-40]+"\n")
	withKey := joined("with-key", ca, text(own.ServerKeyFile))
	cutPair := joined("cut-pair", text(own.ClientCertFile), ca[:len(ca)-40]+"\n")
	for _, tt := range []struct {
		name     string
		files    files.TLS
		settings string
		want     string
	}{
		{"no authorities' file", files.TLS{CAFile: "/nowhere"}, "caFile", "open /nowhere: no such file"},
		{"no authorities in it", files.TLS{CAFile: empty}, "caFile", empty + " must be certificates in PEM: no PEM block"},
		{"an authority that is cut", files.TLS{CAFile: cutCA}, "caFile", cutCA + " must be certificates in PEM: 1 of 2 PEM blocks can't be read"},
		{"an authority with its key", files.TLS{CAFile: withKey}, "caFile", withKey + ` must be certificates in PEM: block 2 is "`},
		{"no certificate's file", files.TLS{CertFile: "/nowhere", KeyFile: own.ClientKeyFile}, "certFile", "open /nowhere"},
		{"no key's file", files.TLS{CertFile: own.ClientCertFile, KeyFile: "/nowhere"}, "keyFile", "open /nowhere"},
		{"half a pair", files.TLS{KeyFile: own.ClientKeyFile}, "certFile keyFile", "belong together"},
		{"a pair with an intermediate that is cut", files.TLS{CertFile: cutPair, KeyFile: own.ClientKeyFile}, "certFile keyFile", "are not a certificate and its key: 1 of 2 PEM blocks can't be read"},
		{"of two pairs", files.TLS{CertFile: own.ClientCertFile, KeyFile: own.ServerKeyFile}, "certFile keyFile", own.ClientCertFile + " and " + own.ServerKeyFile + " are not a certificate and its key: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, ofOne := tt.files.Config("localhost:1")
			_, ofAll := tt.files.Client()
			for _, err := range []error{ofOne, ofAll} {
				var wrong *files.TLSError
				if !errors.As(err, &wrong) || strings.Join(wrong.Settings, " ") != tt.settings || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("got %v, want %s: %s", err, tt.settings, tt.want)
				}
			}
		})
	}
}

func TestTLSConfig(t *testing.T) {
	own := redistest.NewTLS(t)
	for _, tt := range []struct {
		name   string
		files  files.TLS
		server string
	}{
		{"the address' host", files.TLS{}, "there"},
		{"the name that is given", files.TLS{CAFile: own.CAFile, CertFile: own.ClientCertFile, KeyFile: own.ClientKeyFile, ServerName: "other"}, "other"},
	} {
		config, err := tt.files.Config("there:1")
		fatal.If(t, err)
		if config.ServerName != tt.server || (config.RootCAs != nil) != (tt.files.CAFile != "") || len(config.Certificates) > 0 != (tt.files.CertFile != "") {
			t.Errorf("%s: %+v", tt.name, config)
		}
	}
}

// The certificate is replaced after it was read, and the key before.
func TestAPairThatIsReplacedWhileItIsRead(t *testing.T) {
	before, after := redistest.NewTLS(t), redistest.NewTLS(t)
	read := func(path string) string {
		return testpages.Read(t, path)
	}
	folder := t.TempDir()
	own := files.TLS{CertFile: filepath.Join(folder, "tls.crt"), KeyFile: filepath.Join(folder, "tls.key")}
	put(t, own.CertFile, read(before.ClientCertFile))
	// Whoever opens the key waits for it, and has read the certificate.
	fatal.If(t, syscall.Mkfifo(own.KeyFile, 0o600))
	replaced := make(chan error, 1)
	go func() {
		key, err := os.OpenFile(own.KeyFile, os.O_WRONLY, 0)
		if err != nil {
			replaced <- err
			return
		}
		err = errors.Join(os.WriteFile(own.CertFile, []byte(read(after.ClientCertFile)), 0o600), os.Rename(after.ClientKeyFile, own.KeyFile))
		_, wrong := key.WriteString(read(own.KeyFile))
		replaced <- errors.Join(err, wrong, key.Close())
	}()
	pair, err := own.Pair()
	fatal.If(t, err)
	fatal.If(t, <-replaced)
	want, err := tls.LoadX509KeyPair(after.ClientCertFile, own.KeyFile)
	if err != nil || !pair.Leaf.Equal(want.Leaf) {
		t.Errorf("not the new pair, %v", err)
	}
}

// A server that accepts connections and stays silent delays callers no longer than
// that.
func TestAHandshakeThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer server.Close()
		go func() {
			var hello [1 << 10]byte
			for {
				if _, err := server.Read(hello[:]); err != nil {
					return
				}
			}
		}()
		dial := files.Dial(func(context.Context, string, string) (net.Conn, error) { return client, nil })
		began := time.Now()
		_, err := dial.TLS(files.TLS{}.Config).Within(time.Minute)(context.Background(), "tcp", "there:1")
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}
