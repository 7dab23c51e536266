package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
)

// printSamples prints objects of every kind that has messages, in JSON and in protobuf as Go writes them, one a line: each kind
// with nothing in it, and then with everything, where a struct is filled the first time that it is met and empty afterwards.
func printSamples(out io.Writer) error {
	type typed struct {
		kind  schema.GroupVersionKind
		known reflect.Type
	}
	var all []typed
	for kind, known := range scheme.Scheme.AllKnownTypes() {
		if kind.Version == runtime.APIVersionInternal || kind.Group == apiextensions.GroupName || !hasMetadata(known) {
			continue
		}
		if _, ok := messagesOf(known, map[string]string{}); ok {
			all = append(all, typed{kind, known})
		}
	}
	all = append(all, typed{metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata"), reflect.TypeFor[metav1.PartialObjectMetadata]()})
	slices.SortFunc(all, func(a, b typed) int { return bytes.Compare([]byte(a.kind.String()), []byte(b.kind.String())) })
	all = append(all, typed{schema.GroupVersionKind{Version: "v1", Kind: "Status"}, reflect.TypeFor[metav1.Status]()})
	options := reflect.TypeFor[metav1.DeleteOptions]()
	all = append(all, typed{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DeleteOptions"}, options})
	definitions := reflect.TypeFor[apiextensions.CustomResourceDefinition]()
	all = append(all, typed{apiextensions.SchemeGroupVersion.WithKind("CustomResourceDefinition"), definitions})

	buffered := bufio.NewWriter(out)
	filler := filler{met: map[reflect.Type]bool{}}
	serializer := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)
	for _, full := range []bool{false, true} {
		for _, t := range all {
			value := reflect.New(t.known)
			if full {
				filler.fill(value.Elem())
			}
			object := value.Interface().(runtime.Object)
			object.GetObjectKind().SetGroupVersionKind(t.kind)
			asJSON, err := json.Marshal(object)
			if err != nil {
				return fmt.Errorf("%v: %w", t.kind, err)
			}
			var asProtobuf bytes.Buffer
			if err := serializer.Encode(object, &asProtobuf); err != nil {
				return fmt.Errorf("%v: %w", t.kind, err)
			}
			line, err := json.Marshal(struct {
				JSON     json.RawMessage `json:"json"`
				Protobuf []byte          `json:"protobuf"`
			}{asJSON, asProtobuf.Bytes()})
			if err != nil {
				return err
			}
			fmt.Fprintf(buffered, "%s\n", line)
		}
	}
	return buffered.Flush()
}

// filler gives every field a value of its own.
type filler struct {
	met  map[reflect.Type]bool
	next int64
}

func (f *filler) number() int64 {
	f.next++
	return f.next
}

func (f *filler) fill(v reflect.Value) {
	if f.fillSpecial(v) {
		return
	}
	switch v.Kind() {
	case reflect.String:
		texts := []string{"text-%d", "a \"quote\" and a \\ %d", "line\n%d", "é😀%d", "<%d&>\u2028", "\x01\x7f%d"}
		n := f.number()
		v.SetString(fmt.Sprintf(texts[n%int64(len(texts))], n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32:
		v.SetInt([]int64{f.number(), -f.number(), 1<<31 - 1, -1 << 31}[f.next%4])
	case reflect.Int64:
		v.SetInt([]int64{f.number(), -f.number(), 1<<63 - 1, -1 << 63}[f.next%4])
	case reflect.Float64:
		v.SetFloat([]float64{float64(f.number()), -0.5, 1e21, 2.5e-7}[f.next%4])
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem())
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes([]byte{0, 0xff, '"', byte(f.number())})
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		f.fill(v.Index(0))
		f.fill(v.Index(1))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range 2 {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			f.fill(key)
			f.fill(value)
			v.SetMapIndex(key, value)
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[metav1.TypeMeta]() || f.met[v.Type()] {
			return
		}
		f.met[v.Type()] = true
		for i := range v.NumField() {
			f.fill(v.Field(i))
		}
	default:
		panic("no value for a " + v.Type().String())
	}
}

func (f *filler) fillSpecial(v reflect.Value) bool {
	moment := func() time.Time { return time.Unix(1_700_000_000+86_399*f.number(), 123_456_789).UTC() }
	switch special := v.Addr().Interface().(type) {
	case *metav1.Time:
		special.Time = moment().Truncate(time.Second)
	case *metav1.MicroTime:
		special.Time = moment().Truncate(time.Microsecond)
	case *resource.Quantity:
		*special = resource.MustParse(fmt.Sprintf([]string{"%dm", "%dKi", "%d", "%de3"}[f.next%4], f.number()))
	case *intstr.IntOrString:
		if n := f.number(); n%2 == 0 {
			*special = intstr.FromString(fmt.Sprintf("%d%%", n))
		} else {
			*special = intstr.FromInt32(-int32(n))
		}
	case *runtime.RawExtension:
		special.Raw = fmt.Appendf(nil, `{"number":%d,"list":[null,true]}`, f.number())
	case *apiextensions.JSON:
		special.Raw = fmt.Appendf(nil, `{"number":%d,"list":[null,true]}`, f.number())
	case *apiextensions.JSONSchemaPropsOrArray:
		if f.number()%2 == 0 {
			special.Schema = &apiextensions.JSONSchemaProps{Type: "string"}
		} else {
			special.JSONSchemas = []apiextensions.JSONSchemaProps{{Type: "string"}, {Type: "integer"}}
		}
	case *apiextensions.JSONSchemaPropsOrBool:
		special.Allows = true
		if f.number()%2 == 0 {
			special.Schema = &apiextensions.JSONSchemaProps{Type: "string"}
		}
	case *apiextensions.JSONSchemaPropsOrStringArray:
		if f.number()%2 == 0 {
			special.Schema = &apiextensions.JSONSchemaProps{Type: "string"}
		} else {
			special.Property = []string{"a", "b"}
		}
	case *metav1.FieldsV1:
		special.SetRawBytes(fmt.Appendf(nil, `{"f:field-%d":{}}`, f.number()))
	default:
		return false
	}
	return true
}
