package quantity

import (
	"math"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Values as the functions of upstream give them.
func TestMilliRoundsAwayFromZeroAndOverflowsSilently(t *testing.T) {
	for _, tt := range []struct {
		in      string
		milli   int64
		inRange bool
	}{
		{"0", 0, true},
		{"0.0001", 1, true},
		{"100u", 1, true},
		{"1n", 1, true},
		{"1.0001", 1001, true},
		{"-1.0001", -1001, true},
		{"1500m", 1500, true},
		{"1.5Gi", 1610612736000, true},
		{"1Gi", 1073741824000, true},
		{"1e3", 1000000, true},
		{"123456789n", 124, true},
		{"9223372036854775", 9223372036854775000, true},
		{"9223372036854776", -9223372036854775616, false},
		{"10P", 0, false},
		{"1E", 0, false},
		{"16Ei", -1000, false},
	} {
		milli, inRange, err := ParseMilli(tt.in)
		bytesMilli, bytesInRange, bytesErr := ParseMilliBytes([]byte(tt.in))
		if bytesMilli != milli || bytesInRange != inRange || bytesErr != nil {
			t.Errorf("ParseMilliBytes(%q) = %d, %t, %v; ParseMilli: %d, %t", tt.in, bytesMilli, bytesInRange, bytesErr, milli, inRange)
		}
		if err != nil || milli != tt.milli || inRange != tt.inRange {
			t.Errorf("ParseMilli(%q) = %d, %t, %v; want %d, %t", tt.in, milli, inRange, err, tt.milli, tt.inRange)
		}
	}
}

func TestFineQuantitiesHaveTheirFraction(t *testing.T) {
	for in, want := range map[string]float64{
		"0": 0, "500u": 0.5, "0.0005": 0.5, "1n": 1e-6, "123456789n": 123.456789, "1500m": 1500, "1Gi": 1073741824000, "-1.0001": -1000.1, "0.00000000001": 1e-6,
		"5000000000.0000001": 5000000000000.0001, "9223372036854774.9995": 9223372036854775000,
	} {
		if got, inRange, err := ParseFine(in); math.Abs(got-want) > 1e-15*math.Abs(want) || !inRange || err != nil {
			t.Errorf("ParseFine(%q) = %v, %t, %v; want %v", in, got, inRange, err, want)
		}
	}
	if _, inRange, err := ParseFine("1E"); inRange || err != nil {
		t.Errorf("1E: %t, %v", inRange, err)
	}
	if _, _, err := ParseFine("x"); err == nil {
		t.Error("x is no quantity")
	}
}

func TestMalformedQuantitiesAreRefused(t *testing.T) {
	for _, in := range []string{"", "1x", "1 m", "1mm", "1e-999999999", "1e2000000000", "--1", "1.2.3", "1KI", "١", "0x10", "1_000"} {
		if _, err := Parse(in); err == nil {
			t.Errorf("Parse(%q) succeeded", in)
		}
		if _, _, err := ParseMilli(in); err == nil {
			t.Errorf("ParseMilli(%q) succeeded", in)
		}
	}
}

func TestSumsAreExactUntilRounded(t *testing.T) {
	small, _ := Parse("100u")
	if got := small.Add(small).Milli(); got != 1 {
		t.Errorf("100u + 100u is %d milli, want 1: rounded once", got)
	}
	big, _ := Parse("9223372036854775")
	if sum := big.Add(big); sum.InRange() {
		t.Errorf("the doubled largest value is in range with %d milli", sum.Milli())
	}
	same := big
	if FromMilli(1500).Cmp(FromMilli(1499)) != 1 || small.Cmp(FromMilli(1)) != -1 || big.Cmp(same) != 0 {
		t.Error("comparison is not by the exact amounts")
	}
}

func TestToleranceIsReadFromTheCanonicalForm(t *testing.T) {
	for _, in := range []string{"0.05", "50m", "50000u"} {
		got, err := ApproximateFloat(in)
		if want := 50 * math.Pow10(-3); err != nil || got != want {
			t.Errorf("ApproximateFloat(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
	if _, err := ApproximateFloat("much"); err == nil {
		t.Error("a malformed tolerance was read")
	}
}

func TestFormatsEqualTheLibrarys(t *testing.T) {
	check := func(v int64) {
		if got, want := FormatDecimal(v), resource.NewMilliQuantity(v, resource.DecimalSI).String(); got != want {
			t.Errorf("FormatDecimal(%d) = %q, want %q", v, got, want)
		}
		if got, want := FormatBinary(v), resource.NewMilliQuantity(v, resource.BinarySI).String(); got != want {
			t.Errorf("FormatBinary(%d) = %q, want %q", v, got, want)
		}
	}
	for _, v := range []int64{0, 1, -1, 999, 1000, 1001, 20000, 3e9, -3e9, 110 << 20 * 1000, 115692885333, math.MaxInt64, math.MinInt64, 9e18, 1e18} {
		check(v)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20000 {
		v := random.Int64() >> random.IntN(63)
		for range random.IntN(6) {
			v *= 10
		}
		check(v)
		check(-v)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"0", "1", "450m", "123456789n", "1Gi", "1.5Gi", "1e3", "-1", "999999999999999G", "16Ei", "0.1", "1E", "00012Ki", "+5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, wantErr := ParseLibrary(s)
		got, err := Parse(s)
		milli, _, milliErr := ParseMilli(s)
		if (err == nil) != (wantErr == nil) || (milliErr == nil) != (wantErr == nil) {
			t.Fatalf("%q: errors %v, %v; the library's is %v", s, err, milliErr, wantErr)
		}
		fromBytes, bytesErr := ParseBytes([]byte(s))
		milliFromBytes, _, milliBytesErr := ParseMilliBytes([]byte(s))
		if (bytesErr == nil) != (err == nil) || (milliBytesErr == nil) != (err == nil) ||
			fromBytes.Cmp(got) != 0 || fromBytes.Milli() != got.Milli() || milliFromBytes != milli {
			t.Fatalf("%q is read as %v, %v, and from bytes as %v, %v", s, got, err, fromBytes, bytesErr)
		}
		if err != nil {
			return
		}
		if got.Milli() != want.MilliValue() || milli != want.MilliValue() {
			t.Fatalf("%q: %d and %d milli, the library has %d", s, got.Milli(), milli, want.MilliValue())
		}
		exact := got.library()
		if exact.Cmp(want) != 0 {
			t.Fatalf("%q is kept as %s", s, exact.String())
		}
	})
}

func BenchmarkParseMilli(b *testing.B) {
	for _, s := range []string{"450m", "210Mi", "123456789n", "1.5"} {
		b.Run("quantity="+s, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := ParseMilli(s); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
