package source

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/internal/typed"
)

// TLS sets the CAs to trust and the client certificate. The files are read at each handshake, so
// that they can be replaced.
type TLS struct {
	// CAFile is a PEM file of the trusted CAs. Default: the system's.
	CAFile string `json:"caFile,omitempty"`
	// CertFile is a PEM file of the client certificate. Default: none.
	CertFile string `json:"certFile,omitempty"`
	// KeyFile is the key of CertFile. Required with it.
	KeyFile string `json:"keyFile,omitempty"`
	// ServerName is the expected name in the server's certificate. Default: the host of the
	// address.
	ServerName string `json:"serverName,omitempty"`
}

// Problems returns the problems of the settings. It opens no file.
func (t *TLS) Problems() typed.Problems {
	var p typed.Problems
	if (t.CertFile == "") != (t.KeyFile == "") {
		p.Add("certFile", "and keyFile belong together: give both or neither")
	}
	return p
}

// Config reads the files, for a connection to an address.
func (t *TLS) Config(address string) (*tls.Config, error) {
	config, err := files.TLS(*t).Config(address)
	if wrong, ok := errors.AsType[*files.TLSError](err); ok {
		f := &Failure{Outcome: Unprepared, Message: fmt.Sprintf("tls.%s %s", strings.Join(wrong.Settings, " and tls."), reasonOf(wrong.Err))}
		if path := (*fs.PathError)(nil); errors.As(wrong.Err, &path) {
			f.File = path.Path
		}
		return nil, f
	}
	return config, err
}

// SecretFile is a credential in a file.
type SecretFile struct {
	// key is the setting of the file, for errors.
	key, name string
	file      *files.Secret
}

// NewSecretFile returns the file of a setting, its key. The log tells of changes that can't be read.
func NewSecretFile(key, name string, log *zap.Logger) *SecretFile {
	f := &SecretFile{key: key, name: name}
	f.file = files.NewSecret(name, func(err error) {
		if err != nil {
			log.Error("file not read, keeping its previous content", zap.String("file", name), zap.String("error", f.problem(err)))
			return
		}
		log.Info("file reloaded", zap.String("file", name))
	})
	return f
}

// Read returns the file's text, trimmed; while the file is being replaced it returns the
// previous text.
func (f *SecretFile) Read() (string, error) {
	text, err := f.file.Get()
	if err != nil {
		return "", &Failure{Outcome: Unprepared, Message: f.problem(err), File: f.name}
	}
	return text, nil
}

func (f *SecretFile) problem(err error) string { return f.key + " " + reasonOf(err) }

// reasonOf is the problem with a file, without its name, which is the operator's.
func reasonOf(err error) string {
	said := errors.Is(err, files.ErrEmpty) || errors.Is(err, files.ErrLines)
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
		if !said {
			return "can't be read: " + typed.Shorten(err.Error(), typed.MaxQuoted)
		}
	}
	return typed.Shorten(err.Error(), typed.MaxQuoted)
}
