package files

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
)

// PEM calls read for each PEM block. There must be at least one, none of another type, and none that is cut or damaged.
func PEM(data []byte, blockType string, read func(der []byte) error) error {
	n := 0
	for rest := data; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		if n++; block.Type != blockType {
			return fmt.Errorf("block %d is %q, not %q", n, block.Type, blockType)
		}
		if err := read(block.Bytes); err != nil {
			return fmt.Errorf("block %d: %w", n, err)
		}
	}
	if n == 0 {
		return fmt.Errorf("no PEM block %q", blockType)
	}
	return allRead(data, "-----BEGIN ", n)
}

// allRead returns an error unless as many blocks as begin were read: pem.Decode skips one that is cut or damaged.
func allRead(data []byte, begin string, read int) error {
	if all := bytes.Count(data, []byte(begin)); all > read {
		return fmt.Errorf("%d of %d PEM blocks can't be read", all-read, all)
	}
	return nil
}

// ParseCertificates parses at least one certificate, and refuses a file with anything else in it.
func ParseCertificates(data []byte) (certs []*x509.Certificate, err error) {
	err = PEM(data, "CERTIFICATE", func(der []byte) error {
		c, err := x509.ParseCertificate(der)
		certs = append(certs, c)
		return err
	})
	return certs, err
}

// ParsePair parses a certificate, with its intermediates, all of them, and its key.
func ParsePair(cert, key []byte) (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(cert, key)
	if err == nil {
		err = allRead(cert, "-----BEGIN CERTIFICATE-----", len(pair.Certificate))
	}
	return pair, err
}
