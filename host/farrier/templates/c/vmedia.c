// {{name}}: how media get into a server's slots.
//
// One function is its own: an empty slot is not ejected, since some BMCs answer that with an error. All others go to the
// next plugin down the chain, whose last is Farrier's own. An instance lives for one call, so nothing here is freed.

#include "vmedia_plugin.h"

typedef vmedia_plugin_string_t string_t;
typedef exports_farrier_driver_vmedia_borrow_node_t node_t;
typedef exports_farrier_driver_vmedia_borrow_location_t location_t;
typedef exports_farrier_driver_vmedia_device_t device_t;
typedef exports_farrier_driver_vmedia_error_t error_t;

bool exports_farrier_driver_vmedia_detach(node_t node, device_t device, error_t *error) {
  farrier_driver_bmc_media_t media;
  if (!farrier_driver_bmc_media_state(node, device, &media, error)) return false;
  if (!media.inserted) {
    string_t message;
    vmedia_plugin_string_set(&message, "the slot is empty already");
    vmedia_plugin_list_tuple2_string_string_t no_fields = {0};
    farrier_driver_log_event(FARRIER_DRIVER_LOG_LEVEL_INFO, &message, &no_fields);
    return true;
  }
  return farrier_driver_vmedia_service_detach(node, device, error);
}

bool exports_farrier_driver_vmedia_prepare_ramdisk(node_t node, exports_farrier_driver_vmedia_list_parameter_t *parameters,
                                                   error_t *error) {
  farrier_driver_vmedia_service_list_parameter_t same = {parameters->ptr, parameters->len};
  return farrier_driver_vmedia_service_prepare_ramdisk(node, &same, error);
}

bool exports_farrier_driver_vmedia_clean_up_ramdisk(node_t node, error_t *error) {
  return farrier_driver_vmedia_service_clean_up_ramdisk(node, error);
}

bool exports_farrier_driver_vmedia_prepare_instance(node_t node, error_t *error) {
  return farrier_driver_vmedia_service_prepare_instance(node, error);
}

bool exports_farrier_driver_vmedia_clean_up_instance(node_t node, error_t *error) {
  return farrier_driver_vmedia_service_clean_up_instance(node, error);
}

bool exports_farrier_driver_vmedia_attach(node_t node, device_t device, location_t location, error_t *error) {
  return farrier_driver_vmedia_service_attach(node, device, location, error);
}

bool exports_farrier_driver_vmedia_boot_into_iso(node_t node, location_t iso, error_t *error) {
  return farrier_driver_vmedia_service_boot_into_iso(node, iso, error);
}
