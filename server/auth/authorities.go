package auth

import (
	"context"
	"crypto/x509"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/files"
)

// authorities are the CAs to trust for an issuer's server, reloaded when their file
// changes.
type authorities struct {
	path string
	file *files.Watched[*x509.CertPool] // nil: there is none, or it could not be read
	// changed is called when the CAs have changed.
	changed func()
}

// authorities opens the issuer's file.
func (a *Authenticator) authorities(c IssuerConfig) *authorities {
	all := &authorities{path: c.CAFile, changed: func() {}}
	if c.CAFile == "" {
		return all
	}
	watched := a.options.Files
	watched.OnChange = func(e files.Event) {
		if e.Err == nil {
			all.changed()
		}
		a.fileChanged(e)
	}
	var err error
	all.file, err = files.Open(func(contents [][]byte) (*x509.CertPool, error) {
		pool, err := files.ParseAuthorities(contents[0])
		if err != nil {
			err = fmt.Errorf("%s %w", c.CAFile, err)
		}
		return pool, err
	}, watched, c.CAFile)
	if err != nil {
		// The file was valid a moment ago, when the file of issuers was read.
		a.fileChanged(files.Event{Paths: []string{c.CAFile}, Err: err})
		all.file = nil
	}
	return all
}

// run watches the file until ctx is done.
func (a *authorities) run(ctx context.Context) {
	if a.file != nil {
		a.file.Run(ctx)
	}
}

// pool returns the CAs; nil: the system's.
func (a *authorities) pool() (*x509.CertPool, error) {
	if a.file != nil {
		return a.file.Load(), nil
	}
	return files.TLS{CAFile: a.path}.Authorities()
}
