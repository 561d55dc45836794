package certs

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/internal/files"
)

// ClientAuth is whether a server verifies clients' certificates.
type ClientAuth string

const (
	// None requests no certificate.
	None ClientAuth = "none"
	// Optional requests one. A client may have none, but not an invalid one.
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
	// expiredWarningInterval is how often OnExpiring is called once the certificate has expired.
	expiredWarningInterval = time.Hour
)

// Options name the files to use, all PEM, and how.
type Options struct {
	// CertFile has the own certificate, then intermediate ones; KeyFile its key.
	// Optional for clients.
	CertFile, KeyFile string
	// CAFile has the CAs of the other side's certificates. Empty: the system's for a
	// client; a server needs it to verify certificates.
	CAFile string
	// CRLFile has revocation lists of these CAs, one for every CA whose certificates may
	// be revoked. Empty: nothing is revoked. Lists of other CAs are worth a warning.
	CRLFile string
	// ClientAuth is whether a server verifies clients' certificates; empty: None.
	ClientAuth ClientAuth
	// Interval is how often Run checks the files. Zero: DefaultInterval.
	Interval time.Duration
	// Settle is how long the files must stay the same before they are used, also at the
	// start. Zero: the default of package files.
	Settle time.Duration
	// ExpiryWarning is how long before the own certificate expires OnExpiring is called,
	// once a day, and once an hour when it has expired. Zero: DefaultExpiryWarning.
	ExpiryWarning time.Duration
	// OnChange is called without an error when new contents of the certificate with its key, of
	// the CAs or of the lists were loaded, and with one when they can't be used. OnWarning is called
	// with each new warning of Status after New. OnExpiring is called when the own certificate
	// expires soon, or has expired. They must not call the Source. Nil: not called.
	OnChange   func(files.Event)
	OnWarning  func(string)
	OnExpiring func(notAfter time.Time)
	// Clock tells the time; nil means time.Now.
	Clock func() time.Time
}

func (o Options) withDefaults() Options {
	o.ClientAuth = cmp.Or(o.ClientAuth, None)
	o.Interval = cmp.Or(o.Interval, DefaultInterval)
	o.Settle = cmp.Or(o.Settle, files.DefaultSettle)
	o.ExpiryWarning = cmp.Or(o.ExpiryWarning, DefaultExpiryWarning)
	if o.OnChange == nil {
		o.OnChange = func(files.Event) {}
	}
	if o.OnWarning == nil {
		o.OnWarning = func(string) {}
	}
	if o.OnExpiring == nil {
		o.OnExpiring = func(time.Time) {}
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return o
}

// Validate returns all errors of the options; it does not check the files.
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
