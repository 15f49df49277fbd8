// How do I give operators one button that only my vendor's BMCs have? With a `vendor` plugin: a method of its own, and a grant for
// the one request that it sends.
//
// An instance lives for one call, so nothing here is freed.

#include "vendor_plugin.h"

#include <stdlib.h>
#include <string.h>

#define RESET "/redfish/v1/Managers/1/Actions/Manager.Reset"

typedef vendor_plugin_string_t string_t;
typedef exports_farrier_driver_vendor_method_t method_t;
typedef exports_farrier_driver_vendor_error_t error_t;

static void *allocate(size_t size) {
  void *memory = malloc(size);
  if (memory == NULL) abort();
  return memory;
}

void exports_farrier_driver_vendor_methods(exports_farrier_driver_vendor_list_method_t *methods) {
  method_t *method = allocate(sizeof(method_t));
  vendor_plugin_string_dup(&method->name, "reset-bmc");
  vendor_plugin_string_dup(&method->description, "Restarts the BMC; the server itself runs on");
  method->http_methods.len = 1;
  method->http_methods.ptr = allocate(sizeof(string_t));
  vendor_plugin_string_dup(method->http_methods.ptr, "POST");
  method->asynchronous = false;
  vendor_plugin_string_dup(&method->arguments, "{\"type\":\"object\",\"additionalProperties\":false}");
  methods->ptr = method;
  methods->len = 1;
}

bool exports_farrier_driver_vendor_call(exports_farrier_driver_vendor_borrow_node_t node, string_t *method,
                                        string_t *arguments, string_t *result, error_t *error) {
  static const char name[] = "reset-bmc";
  if (method->len != strlen(name) || memcmp(method->ptr, name, method->len) != 0) {
    error->tag = FARRIER_DRIVER_TYPES_ERROR_NOT_FOUND;
    vendor_plugin_string_dup(&error->val.not_found, "the one method is `reset-bmc`");
    return false;
  }
  string_t post, path, body;
  vendor_plugin_string_set(&post, "POST");
  vendor_plugin_string_set(&path, RESET);
  vendor_plugin_string_set(&body, "{\"ResetType\":\"GracefulRestart\"}");
  farrier_driver_bmc_raw_reply_t reply;
  if (!farrier_driver_bmc_raw_redfish(node, &post, &path, &body, &reply, error)) return false;
  if (reply.status == 401 || reply.status == 403) {
    error->tag = FARRIER_DRIVER_TYPES_ERROR_OTHER;
    vendor_plugin_string_dup(&error->val.other.code, "bmc-login");
    vendor_plugin_string_dup(&error->val.other.message, "the BMC's user may not reset it: give it the iLO Settings privilege");
    error->val.other.retry_after_ms.is_some = false;
    return false;
  }
  if (reply.status >= 300) {
    error->tag = FARRIER_DRIVER_TYPES_ERROR_UNSUPPORTED;
    vendor_plugin_string_dup(&error->val.unsupported, "this BMC does not take a graceful restart");
    return false;
  }
  vendor_plugin_string_dup(result, "{\"bmc\":\"restarting\"}");
  return true;
}
