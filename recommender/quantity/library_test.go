package quantity

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

func TestParseLibrary(t *testing.T) {
	digits := strings.Repeat("9", 999) + "m"
	tests := []struct {
		name, text string
		// want is the canonical form, or
		want string
		// wantErr the error's text.
		wantErr string
	}{
		{name: "plain", text: "5", want: "5"},
		{name: "suffix", text: "0.5Gi", want: "512Mi"},
		{name: "exponent", text: "1e3", want: "1e3"},
		{name: "exa is no exponent", text: "1E", want: "1E"},
		{name: "exbi is no exponent", text: "1Ei", want: "1Ei"},
		{name: "space around it", text: "\t5 ", want: "5"},
		{name: "rounded up to nano", text: "1e-1000", want: "1e-9"},
		{name: "largest exponent", text: "12e+1000", want: "120e999"},
		{name: "longest", text: digits, want: digits},
		{name: "empty", wantErr: resource.ErrFormatWrong.Error()},
		{name: "only space", text: " ", wantErr: resource.ErrFormatWrong.Error()},
		{name: "no number", text: "abc", wantErr: resource.ErrFormatWrong.Error()},
		{name: "no such suffix", text: "1Kk", wantErr: "unable to parse quantity's suffix"},
		{name: "exponent too large", text: "1e1001", wantErr: "exponent must be between -1000 and 1000"},
		{name: "exponent too small", text: "1E-1001", wantErr: "exponent must be between -1000 and 1000"},
		{name: "exponent that wraps to a small one", text: "1e4294967297", wantErr: "exponent must be between -1000 and 1000"},
		{name: "exponent that does not parse", text: "1e99999999999999999999", wantErr: "unable to parse quantity's suffix"},
		{name: "too long", text: "9" + digits, wantErr: "may not be more than 1000 bytes"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			q, err := ParseLibrary(tt.text)
			switch {
			case tt.wantErr != "":
				if err == nil || err.Error() != tt.wantErr {
					t.Errorf("got error %v, want %q", err, tt.wantErr)
				}
			case err != nil:
				t.Errorf("got error %v", err)
			case q.String() != tt.want:
				t.Errorf("got %s, want %s", q.String(), tt.want)
			}
		})
	}
}
