package certs

import (
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/internal/files"
)

// ClientAuth says whether a server looks at clients' certificates.
type ClientAuth string

const (
	// None asks for no certificate.
	None ClientAuth = "none"
	// Optional asks for one. A client may have none, but not a wrong one.
	Optional ClientAuth = "optional"
	// Require refuses clients without one.
	Require ClientAuth = "require"
)

// ParseClientAuth reads none, optional or require.
func ParseClientAuth(s string) (ClientAuth, error) {
	switch mode := ClientAuth(s); mode {
	case None, Optional, Require:
		return mode, nil
	}
	return "", fmt.Errorf("client certificates %q: must be none, optional or require", s)
}

// Defaults of Options.
const (
	DefaultInterval       = 5 * time.Second
	DefaultExpiryWarning  = 7 * 24 * time.Hour
	expiryWarningInterval = 24 * time.Hour
)

// Options say which files to use, all PEM, and how.
type Options struct {
	// CertFile holds the own certificate, then intermediate ones; KeyFile its key. A
	// client may do without.
	CertFile, KeyFile string
	// CAFile holds the CAs of the other side's certificates. Empty: those of the system
	// for a client; a server needs it to look at certificates.
	CAFile string
	// CRLFile holds revocation lists of these CAs; every CA below which certificates are
	// to be revoked has its own. Empty: nothing is revoked.
	CRLFile string
	// ClientAuth says whether a server looks at clients' certificates; empty: None.
	ClientAuth ClientAuth
	// Interval is how often Run looks at the files. Zero: DefaultInterval.
	Interval time.Duration
	// Settle is how long the files must stay the same before they are used, at the start
	// too. Zero: that of other files that are watched.
	Settle time.Duration
	// ExpiryWarning is how long before the own certificate expires OnExpiring is called,
	// once a day. Zero: DefaultExpiryWarning.
	ExpiryWarning time.Duration
	// OnChange is called when other files were loaded (nil), and when something gets
	// wrong with them. OnExpiring is called when the own certificate expires soon, or has
	// expired. They must not call the Source. Nil: not called.
	OnChange   func(error)
	OnExpiring func(notAfter time.Time)
	// Clock tells the time; nil means time.Now.
	Clock func() time.Time
}

func (o Options) withDefaults() Options {
	if o.ClientAuth == "" {
		o.ClientAuth = None
	}
	if o.Interval == 0 {
		o.Interval = DefaultInterval
	}
	if o.Settle == 0 {
		o.Settle = files.DefaultSettle
	}
	if o.ExpiryWarning == 0 {
		o.ExpiryWarning = DefaultExpiryWarning
	}
	if o.OnChange == nil {
		o.OnChange = func(error) {}
	}
	if o.OnExpiring == nil {
		o.OnExpiring = func(time.Time) {}
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return o
}

// Validate returns all that is wrong with the options; it does not look at the files.
func (o Options) Validate() error {
	o = o.withDefaults()
	var problems []error
	if (o.CertFile == "") != (o.KeyFile == "") {
		problems = append(problems, errors.New("a certificate needs its key, and a key its certificate"))
	}
	if _, err := ParseClientAuth(string(o.ClientAuth)); err != nil {
		problems = append(problems, err)
	} else if o.ClientAuth != None && o.CAFile == "" {
		problems = append(problems, fmt.Errorf("client certificates %q: need the CAs of the clients", o.ClientAuth))
	}
	if o.CRLFile != "" && o.CAFile == "" {
		problems = append(problems, errors.New("revocation lists need the CAs that signed them"))
	}
	if o.Interval < 0 || o.Settle < 0 || o.ExpiryWarning < 0 {
		problems = append(problems, errors.New("interval, settling and expiry warning must not be negative"))
	}
	return errors.Join(problems...)
}
