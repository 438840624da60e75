#pragma once

// Short names for the packages of Temporal's messages. Inside millrace::temporal a plain `temporal`
// would mean this module.
namespace temporal::api::common::v1 {}
namespace temporal::api::enums::v1 {}
namespace temporal::api::history::v1 {}
namespace temporal::api::taskqueue::v1 {}
namespace temporal::api::workflowservice::v1 {}
namespace temporal::server::api::historyservice::v1 {}
namespace temporal::server::api::matchingservice::v1 {}
namespace temporal::server::api::persistence::v1 {}
namespace temporal::server::api::taskqueue::v1 {}
namespace temporal::server::api::token::v1 {}

namespace millrace::temporal {

namespace common_pb = ::temporal::api::common::v1;
namespace enums_pb = ::temporal::api::enums::v1;
namespace history_events_pb = ::temporal::api::history::v1;
namespace taskqueue_pb = ::temporal::api::taskqueue::v1;
namespace workflow_pb = ::temporal::api::workflowservice::v1;
namespace history_pb = ::temporal::server::api::historyservice::v1;
namespace matching_pb = ::temporal::server::api::matchingservice::v1;
namespace persistence_pb = ::temporal::server::api::persistence::v1;
namespace partition_pb = ::temporal::server::api::taskqueue::v1;
namespace token_pb = ::temporal::server::api::token::v1;

}  // namespace millrace::temporal
