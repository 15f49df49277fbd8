// {{name}}: methods of a vendor's own: the light of a server's chassis.
//
// An instance lives for one call, so nothing here is freed.

#include "vendor_plugin.h"

#include <stdlib.h>
#include <string.h>

typedef vendor_plugin_string_t string_t;
typedef exports_farrier_driver_vendor_method_t method_t;
typedef exports_farrier_driver_vendor_error_t error_t;

static bool is(const string_t *text, const char *word) {
  return text->len == strlen(word) && memcmp(text->ptr, word, text->len) == 0;
}

// The three texts one after the other.
static void join(string_t *all, const char *begin, const string_t *middle, const char *end) {
  all->len = strlen(begin) + middle->len + strlen(end);
  all->ptr = malloc(all->len);
  if (all->ptr == NULL) abort();
  memcpy(all->ptr, begin, strlen(begin));
  memcpy(all->ptr + strlen(begin), middle->ptr, middle->len);
  memcpy(all->ptr + strlen(begin) + middle->len, end, strlen(end));
}

static void describe(method_t *method, const char *name, const char *description) {
  vendor_plugin_string_dup(&method->name, name);
  vendor_plugin_string_dup(&method->description, description);
  method->http_methods.len = 1;
  method->http_methods.ptr = malloc(sizeof(string_t));
  if (method->http_methods.ptr == NULL) abort();
  vendor_plugin_string_dup(method->http_methods.ptr, "POST");
  method->asynchronous = false;
  vendor_plugin_string_dup(&method->arguments, "{\"type\":\"object\",\"additionalProperties\":false}");
}

void exports_farrier_driver_vendor_methods(exports_farrier_driver_vendor_list_method_t *methods) {
  methods->len = 2;
  methods->ptr = calloc(2, sizeof(method_t));
  if (methods->ptr == NULL) abort();
  describe(&methods->ptr[0], "light-on", "Lights the chassis, to find the server in its rack");
  describe(&methods->ptr[1], "light-off", "Puts the light of the chassis out");
}

bool exports_farrier_driver_vendor_call(exports_farrier_driver_vendor_borrow_node_t node, string_t *method,
                                        string_t *arguments, string_t *result, error_t *error) {
  string_t light, body, patch, path;
  if (is(method, "light-on")) {
    vendor_plugin_string_set(&light, "Lit");
  } else if (is(method, "light-off")) {
    vendor_plugin_string_set(&light, "Off");
  } else {
    error->tag = FARRIER_DRIVER_TYPES_ERROR_NOT_FOUND;
    join(&error->val.not_found, "there is no method `", method, "`");
    return false;
  }
  join(&body, "{\"IndicatorLED\":\"", &light, "\"}");
  vendor_plugin_string_set(&patch, "PATCH");
  vendor_plugin_string_set(&path, "/redfish/v1/Chassis/1");
  farrier_driver_bmc_raw_reply_t reply;
  if (!farrier_driver_bmc_raw_redfish(node, &patch, &path, &body, &reply, error)) return false;
  if (reply.status >= 300) {
    uint8_t digits[] = {'0' + reply.status / 100 % 10, '0' + reply.status / 10 % 10, '0' + reply.status % 10};
    string_t status = {digits, sizeof(digits)};
    error->tag = FARRIER_DRIVER_TYPES_ERROR_OTHER;
    vendor_plugin_string_dup(&error->val.other.code, "bmc-refused");
    join(&error->val.other.message, "the BMC answered ", &status, " to the change of its light");
    error->val.other.retry_after_ms.is_some = false;
    return false;
  }
  join(result, "{\"indicator-led\":\"", &light, "\"}");
  return true;
}
